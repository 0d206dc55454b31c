// Decks are not trusted: whatever the text, it is either a deck or one Error(usage), soon and in little
// memory.
#include <cctype>
#include <random>

#include "tests/io/deck_fixture.hpp"

namespace tessera::testing {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(DeckLimits, RefusesHugeText) {
  EXPECT_EQ(message_of(repeated("# xxxxxxxxxxxx\n", 150'000)),
            "[deck d.yaml] the text is too long: found 2250000 bytes, expected at most 2097152");
  EXPECT_NE(message_of("splits: [" + repeated("[],", 500'000) + "]").find("more than 200000 entries"),
            std::string::npos);
  EXPECT_EQ(message_of(std::string("a: \0b", 5)), "[deck d.yaml] not a text file: byte 3 is zero");
}

TEST(DeckLimits, RefusesDeepText) {
  for (const char* open : {"[", "{a: ", "- ", "? "}) {
    const std::string message = message_of("splits: \n  " + repeated(open, 100));
    EXPECT_NE(message.find("more than 32 levels deep"), std::string::npos) << open << message;
  }
  EXPECT_FALSE(message_of(repeated("[", 100'000)).empty());
  EXPECT_FALSE(message_of(repeated("{", 100'000)).empty());
}

TEST(DeckLimits, ReplacesAliasesUpToALimit) {
  const Deck deck = parse("steps: &n 7\nmodel: {type: vit}\nfields: [&f {name: u, shape: [*n]}, *f]\n");
  EXPECT_EQ(deck.get<std::vector<int>>("fields.1.shape"), (std::vector<int>{7}));
  std::string bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string last = "*a" + std::to_string(i - 1) + ", ";
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeated(last, 10) + "]\n";
  }
  EXPECT_NE(message_of(bomb).find("more than 200000 entries"), std::string::npos);
  const std::string fat = "a: &a \"" + std::string(1'000'000, 'x') + "\"\nb: [*a, *a, *a, *a, *a]\n";
  EXPECT_NE(message_of(fat).find("more than 2097152 bytes"), std::string::npos);
  std::string anchors = "splits: [";
  for (int i = 0; i < 101; ++i) anchors += "&a" + std::to_string(i) + " [], ";
  EXPECT_NE(message_of(anchors + "]").find("more than 100 anchors"), std::string::npos);
  EXPECT_EQ(message_of("fields: &f [*f]"), "[deck d.yaml:1:13] an alias stands inside what it stands for");
  EXPECT_NE(message_of("fields: *nothing").find("not valid YAML"), std::string::npos);
}

TEST(DeckLimits, ShortensWhatItQuotes) {
  const std::string message = message_of(minimal + std::string(900, 'k') + "\x1b: 1\n");
  EXPECT_LT(message.size(), 300U);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

/// What mutations insert: all that has a meaning in YAML or to the schema.
const std::vector<std::string> pieces{"\n",        "  ",         "\t",      ":",
                                      ": ",        "- ",         "[",       "]",
                                      "{",         "}",          ",",       "&a ",
                                      "*a",        "!",          "!!int ",  "|\n",
                                      ">",         "'",          "\"",      "#",
                                      "%",         "@",          "`",       "?",
                                      "? ",        "---\n",      "...\n",   "<<: *a",
                                      "~",         "null",       "true",    ".nan",
                                      "-",         "0",          "1e999",   "99999999999999999999",
                                      "\\",        "\\x",        "\xff",    "\xef\xbb\xbf",
                                      "\xc3\xa4",  "\r",         "steps",   "model",
                                      "type: vit", "partition:", "fields:", "1:2:3"};

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
    const std::size_t at = below(text.size() + 1);
    switch (below(8)) {
      case 0:
        text.insert(at, pieces[below(pieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size() + 1), below(20)));
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(1 + below(255));
        break;
      default:  // most of these remain YAML and reach the schema
        if (at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]))) {
          text[at] = "0123456789abcdefghijklmnopqrstuvwxyz"[below(36)];
        }
    }
  }
  return text;
}

TEST(DeckLimits, MutatedDecksGiveADeckOrAnError) {
  const Schema schema = test_schema();
  const std::string seed = minimal +
                           "title: \"a b\"\nwalltime: 1:00:00\ntrain:\n  lr: 1e-3\n  betas: [0.5, 0.9]\n"
                           "ema: {decay: 0.9}\npartition:\n  x: even\n  y: {type: weights, weights: [3, 2]}\n"
                           "mesh: {ddp: 2}\nsplits: [[0, 4], [4, 5]]\n";
  EXPECT_EQ(message_of(seed), "");
  std::mt19937 random(7);
  int valid = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = mutated(seed, random);
    const std::vector<std::string> overrides{mutated("model.depth=3", random),
                                             mutated("fields.0.shape=[1]", random)};
    try {
      const Deck deck =
          Deck::parse(schema, {{"d.yaml", text}}, i % 2 ? overrides : std::vector<std::string>{});
      const std::string resolved = deck.resolved();
      EXPECT_EQ(Deck::parse(schema, {{"again", resolved}}).resolved(), resolved) << text;
      ++valid;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(valid, 100);
}

}  // namespace
}  // namespace tessera::testing
