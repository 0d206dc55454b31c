#include "tests/io/deck_fixture.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "io/deck/help.hpp"
#include "io/deck/nearest.hpp"
#include "io/deck/scalar.hpp"

namespace tessera::testing {
namespace {

TEST(Deck, ReadsEveryType) {
  const Deck deck = parse(R"(steps: 1e3
quiet: yes
title: "null"
walltime: 1:30:05
train:
  lr: 3e-4
  betas: [0.5, 1]
ema: {decay: 0.99}
model:
  type: convnet
  width: 48
fields:
  - name: u
    shape: [4, 8]
  - name: 007
    shape: 3
    missing: .nan
partition:
  domain: {type: weights, weights: [3, 2]}
  other: even
mesh: {ddp: 2, domain-y: -1}
splits: [[0, 96], [96, 108]]
)");
  EXPECT_EQ(deck.get<int>("steps"), 1000);
  EXPECT_TRUE(deck.get<bool>("quiet"));
  EXPECT_EQ(deck.get<std::string>("title"), "null");
  EXPECT_EQ(deck.get<double>("walltime"), 5405);
  EXPECT_EQ(deck.get<double>("train/lr"), 3e-4);
  EXPECT_EQ(deck.get<double>("train.gravity"), 9.81);
  EXPECT_EQ(deck.get<std::vector<float>>("train.betas"), (std::vector<float>{0.5F, 1}));
  EXPECT_EQ(deck.section("ema").get<double>("decay"), 0.99);
  EXPECT_EQ(deck.get<std::string>("model.type"), "convnet");
  EXPECT_EQ(deck.section("model").keys(), (std::vector<std::string>{"type", "channels", "width", "padding"}));
  const auto fields = deck.sections("fields");
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].get<std::vector<int>>("shape"), (std::vector<int>{4, 8}));
  EXPECT_FALSE(fields[0].has("missing"));
  EXPECT_EQ(fields[1].get<std::string>("name"), "007");
  EXPECT_EQ(fields[1].get<std::vector<std::int64_t>>("shape"), (std::vector<std::int64_t>{3}));
  EXPECT_TRUE(std::isnan(*fields[1].find<double>("missing")));
  EXPECT_EQ(fields[1].path(), "fields.1");
  const auto cuts = deck.sections("partition");
  ASSERT_EQ(cuts.size(), 2U);
  EXPECT_EQ(cuts[0].name(), "domain");
  EXPECT_EQ(cuts[0].get<std::vector<double>>("weights"), (std::vector<double>{3, 2}));
  EXPECT_EQ(cuts[1].get<std::string>("type"), "even");
  EXPECT_EQ(deck.section("mesh").keys(), (std::vector<std::string>{"ddp", "domain-y"}));
  EXPECT_EQ(deck.get<int>("mesh.domain-y"), -1);
  EXPECT_EQ(deck.get<std::vector<std::vector<int>>>("splits"),
            (std::vector<std::vector<int>>{{0, 96}, {96, 108}}));
}

TEST(Deck, FillsDefaultsAndKnowsThem) {
  const Deck deck = parse(minimal);
  EXPECT_EQ(deck.get<int>("model.depth"), 12);
  EXPECT_EQ(deck.get<double>("model.mlp.ratio"), 4);
  EXPECT_EQ(deck.get<int>("mesh.ddp"), 1);
  EXPECT_EQ(deck.get<std::vector<int>>("fields.0.shape"), (std::vector<int>{1}));
  EXPECT_FALSE(deck.has("walltime"));
  EXPECT_FALSE(deck.has("ema"));
  EXPECT_FALSE(deck.has("ema.decay"));
  EXPECT_FALSE(deck.find_section("ema"));
  EXPECT_TRUE(deck.has("train.lr"));
  EXPECT_FALSE(deck.given("train.lr"));
  EXPECT_TRUE(deck.given("steps"));
  EXPECT_TRUE(deck.sections("partition").empty());
}

TEST(Deck, LayersUpdateOneAnother) {
  const std::string checkpoint =
      parse(minimal, {"model.depth=6", "train.lr=0.5", "ema={decay: 0.5}"}).resolved();
  const std::string text =
      "train: {gravity: 1}\nema: null\nmodel:\n  heads: 8\nmesh: {domain: 2}\nfields:\n  - name: v\n";
  const Deck deck = Deck::parse(test_schema(), {{"checkpoint", checkpoint}, {"d.yaml", text}},
                                {"steps=7", "train.lr=0.25"});
  EXPECT_EQ(deck.get<int>("steps"), 7);
  EXPECT_EQ(deck.get<double>("train.lr"), 0.25);
  EXPECT_EQ(deck.get<double>("train.gravity"), 1);
  EXPECT_FALSE(deck.has("ema"));
  EXPECT_EQ(deck.get<int>("model.depth"), 6);
  EXPECT_EQ(deck.get<int>("model.heads"), 8);
  EXPECT_EQ(deck.section("mesh").keys(), std::vector<std::string>{"domain"});
  EXPECT_EQ(deck.sections("fields").size(), 1U);
  EXPECT_EQ(deck.get<std::string>("fields.0.name"), "v");
}

TEST(Deck, ChangeOfVariantDropsTheFormerOnesKeys) {
  const std::string checkpoint = parse(minimal, {"model.channels=5"}).resolved();
  const Deck layered = Deck::parse(
      test_schema(), {{"checkpoint", checkpoint}, {"d.yaml", "model: {type: convnet, width: 8}"}});
  EXPECT_EQ(layered.section("model").keys(),
            (std::vector<std::string>{"type", "channels", "width", "padding"}));
  EXPECT_EQ(layered.get<int>("model.channels"), 5);
  const Deck overridden = parse("steps: 1\nmodel: {type: vit, depth: 3}\nfields: [{name: u}]",
                                {"model.width=8", "model.type=convnet"});
  EXPECT_EQ(overridden.get<int>("model.width"), 8);
  EXPECT_EQ(message_of(minimal, {"model.type=convnet", "model.width=8", "model.depth=8"}),
            "[command line 'model.depth=8'] unknown key 'model.depth' where model.type is 'convnet': "
            "it belongs to 'vit'");
}

TEST(Deck, OverridesAreTypedAndTheLastWins) {
  const Deck deck = parse(minimal, {"train.lr=0.1", "train/lr=0.2", "fields.0.name=a: [b",
                                    "fields.1={name: w}", "fields.1.shape.0=9", "title='two words'",
                                    "ema.decay=0.5", "train.betas.1=0.5", "mesh={a: 1, b: 2}", "mesh.c=3",
                                    "partition.domain=even", "splits=[[1, 2]]", "walltime=00:01:00"});
  EXPECT_EQ(deck.get<double>("train.lr"), 0.2);
  EXPECT_EQ(deck.get<std::string>("fields.0.name"), "a: [b");
  EXPECT_EQ(deck.get<std::string>("fields.1.name"), "w");
  EXPECT_EQ(deck.get<std::vector<int>>("fields.1.shape"), (std::vector<int>{9}));
  EXPECT_EQ(deck.get<std::string>("title"), "two words");
  EXPECT_EQ(deck.get<double>("ema.decay"), 0.5);
  EXPECT_EQ(deck.get<std::vector<double>>("train.betas"), (std::vector<double>{0.9, 0.5}));
  EXPECT_EQ(deck.section("mesh").keys(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(deck.get<std::string>("partition.domain.type"), "even");
  EXPECT_EQ(deck.get<double>("walltime"), 60);
  EXPECT_TRUE(deck.given("train.betas"));
  EXPECT_FALSE(parse(minimal, {"walltime=1", "walltime=null"}).has("walltime"));
}

TEST(Deck, OverrideFaultsSayCommandLine) {
  EXPECT_EQ(message_of(minimal, {"model.dpeth=3"}),
            "[command line 'model.dpeth=3'] unknown key 'model.dpeth': did you mean 'model.depth'?");
  EXPECT_EQ(message_of(minimal, {"steps"}),
            "[command line 'steps'] not an override: found 'steps', expected key.path=value");
  EXPECT_EQ(message_of(minimal, {"steps=many"}),
            "[command line 'steps=many'] wrong type for 'steps': found 'many', expected integer >= 1");
  EXPECT_EQ(message_of(minimal, {"steps.x=1"}),
            "[command line 'steps.x=1'] unknown key 'steps.x': 'steps' is integer, which has no keys");
  EXPECT_EQ(message_of(minimal, {"fields.2.name=x"}),
            "[command line 'fields.2.name=x'] no entry 'fields.2' in a list: found index '2', expected 0 to "
            "1 (1 appends)");
  EXPECT_EQ(message_of(minimal, {"train.betas=[1"}).substr(0, 49),
            "[command line 'train.betas=[1':1:1] not valid YAM");
  EXPECT_EQ(message_of(minimal, {"ema={}"}),
            "[command line 'ema={}'] missing key 'ema.decay': expected number in [0, 1] (of the average)");
  EXPECT_EQ(message_of(minimal + "train: 3\n", {"train.lr=1"}),
            "[deck d.yaml:5:8] wrong type for 'train': found '3', expected section");
  EXPECT_EQ(message_of(minimal, {"=3", "a..b=1", ".=2", ""}).substr(0, 58),
            "[command line '=3'] not an override: found '=3', expected ");
}

TEST(Deck, FaultsHaveLineAndColumn) {
  const auto with = [](const std::string& lines) { return message_of(minimal + lines); };
  EXPECT_EQ(with("model_: 1\n"), "[deck d.yaml:5:1] unknown key 'model_': did you mean 'model'?");
  EXPECT_EQ(with("train:\n  lr: 0.1\n  betsa: [1, 1]\n"),
            "[deck d.yaml:7:3] unknown key 'train.betsa': did you mean 'train.betas'?");
  EXPECT_EQ(with("lr: 1\n"), "[deck d.yaml:5:1] unknown key 'lr': did you mean 'train.lr'?");
  EXPECT_EQ(with("train: {zzzzzzzz: 1}\n"),
            "[deck d.yaml:5:9] unknown key 'train.zzzzzzzz': expected one of lr, gravity, betas");
  EXPECT_EQ(with("train: {lr: fast}\n"),
            "[deck d.yaml:5:13] wrong type for 'train.lr': found 'fast', expected number in (0, 1]");
  EXPECT_EQ(with("train: {gravity: '3'}\n"),
            "[deck d.yaml:5:18] wrong type for 'train.gravity': found the text '3', expected number (m/s^2)");
  EXPECT_EQ(with("train:\n  lr: 0\n"),
            "[deck d.yaml:6:7] 'train.lr' is out of range: found '0', expected number in (0, 1]");
  EXPECT_EQ(
      with("train:\n  gravity: .nan\n"),
      "[deck d.yaml:6:12] 'train.gravity' is out of range: found '.nan', expected a finite number (m/s^2)");
  EXPECT_EQ(with("train: 3\n"), "[deck d.yaml:5:8] wrong type for 'train': found '3', expected section");
  EXPECT_EQ(with("quiet:\n"),
            "[deck d.yaml:5:1] wrong type for 'quiet': found nothing, expected true | false");
  EXPECT_EQ(with("quiet: 1\n"), "[deck d.yaml:5:8] wrong type for 'quiet': found '1', expected true | false");
  EXPECT_EQ(with("title: [a]\n"), "[deck d.yaml:5:8] wrong type for 'title': found a list, expected text");
  EXPECT_EQ(
      with("walltime: 10:99:00\n"),
      "[deck d.yaml:5:11] wrong type for 'walltime': found '10:99:00', expected hh:mm:ss or seconds (s)");
  EXPECT_EQ(with("train: {betas: [1]}\n"),
            "[deck d.yaml:5:16] wrong length of 'train.betas': found 1 entry, expected 2 entries");
  EXPECT_EQ(with("train: {betas: [1, 2]}\n"),
            "[deck d.yaml:5:20] 'train.betas.1' is out of range: found '2', expected number in [0, 1]");
  EXPECT_EQ(with("ema:\n  {}\n"),
            "[deck d.yaml:5:1] missing key 'ema.decay': expected number in [0, 1] (of the average)");
  EXPECT_EQ(with("  - shape: 2\n"),
            "[deck d.yaml:5:5] missing key 'fields.1.name': expected text (name in the output)");
  EXPECT_EQ(with("partition:\n  a b: even\n"),
            "[deck d.yaml:6:3] not a name in 'partition': found 'a b', expected "
            "at most 64 letters, digits, _ and -");
  EXPECT_EQ(with("partition: {x: weihgts}\n"),
            "[deck d.yaml:5:16] wrong value of 'partition.x.type': found 'weihgts', "
            "expected even | weights; did you mean 'weights'?");
  EXPECT_EQ(with("steps: 3\n"), "[deck d.yaml:5:1] duplicate key 'steps': it was given before at line 1");
  EXPECT_EQ(with("quiet: !!str x\n"), "[deck d.yaml:5:8] decks have no tags: found 'tag:yaml.org,2002:str'");
  EXPECT_EQ(with("? [a]\n: 1\n"), "[deck d.yaml:5:3] a key must be a name: found nothing, a list or a map");
  EXPECT_EQ(with("---\na: 1\n"), "[deck d.yaml] found a second document, expected one");
  EXPECT_EQ(message_of("steps: 1\nmodel: {type: vit\n").substr(0, 40),
            "[deck d.yaml:3:1] not valid YAML: end of");
  EXPECT_EQ(message_of("[1]"), "[deck d.yaml:1:1] wrong type for the deck: found a list, expected section");
}

TEST(Deck, ReportsAllFaultsInTheOrderOfTheText) {
  EXPECT_EQ(
      message_of("fields: []\nstesp: 4\nmodel: {type: convnet, depth: 3}\n", {"qiet=1"}),
      "[deck d.yaml:1:1] missing key 'steps': expected integer >= 1 (updates)\n"
      "[deck d.yaml:1:9] wrong length of 'fields': found 0 entries, expected 1 to 4 entries\n"
      "[deck d.yaml:2:1] unknown key 'stesp': did you mean 'steps'?\n"
      "[deck d.yaml:3:1] missing key 'model.width': expected integer >= 1 (channels inside)\n"
      "[deck d.yaml:3:24] unknown key 'model.depth' where model.type is 'convnet': it belongs to 'vit'\n"
      "[command line 'qiet=1'] unknown key 'qiet': did you mean 'quiet'?");
  std::string many = minimal;
  for (int i = 0; i < 500; ++i) many += "zz" + std::to_string(i) + ": 1\n";
  const std::string message = message_of(many);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  EXPECT_NE(message.find("There may be more faults"), std::string::npos);
}

TEST(Deck, EmptyDeckIsMissingItsKeys) {
  for (const char* text : {"", "# nothing\n", "---\n", "null"}) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find("[deck d.yaml:1:1] missing key 'steps'"), std::string::npos) << message;
    EXPECT_NE(message.find("missing key 'model.type': expected vit | convnet"), std::string::npos) << message;
  }
}

TEST(Deck, LaterChecksKeepThePlace) {
  const Deck deck = parse(minimal + "mesh:\n  ddp: 3\n", {"train.lr=0.5"});
  EXPECT_STREQ(deck.section("mesh").error("ddp", "found {}", 3).what(),
               "[deck d.yaml:6:8] mesh.ddp: found 3");
  EXPECT_STREQ(deck.error("train.lr", "x").what(), "[command line 'train.lr=0.5'] train.lr: x");
  EXPECT_STREQ(deck.error("model.depth", "x").what(), "[deck d.yaml:2:1] model.depth: x");
  EXPECT_STREQ(deck.error("ema.decay", "x").what(), "[deck d.yaml:1:1] ema.decay: x");
  EXPECT_STREQ(deck.sections("fields")[0].error("", "x").what(), "[deck d.yaml:4:5] fields.0: x");
  EXPECT_THROW(
      {
        try {
          deck.get<double>("walltime");
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::usage);
          throw;
        }
      },
      Error);
  EXPECT_THROW(parse(minimal, {"steps=3000000000"}).get<int>("steps"), Error);
  EXPECT_THROW(parse(minimal, {"mesh.a=-1"}).get<unsigned>("mesh.a"), Error);
  EXPECT_EQ(parse(minimal, {"steps=3000000000"}).get<std::int64_t>("steps"), 3000000000);
}

TEST(Deck, ReadingWhatTheSchemaLacksIsInternal) {
  const Deck deck = parse(minimal);
  const auto code = [&](auto&& read) {
    try {
      read();
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  EXPECT_EQ(code([&] { deck.get<int>("nothing"); }), ExitCode::internal);
  EXPECT_EQ(code([&] { deck.get<int>("model.width"); }), ExitCode::internal);
  EXPECT_EQ(code([&] { deck.get<int>("title"); }), ExitCode::internal);
  EXPECT_EQ(code([&] { deck.get<bool>("steps"); }), ExitCode::internal);
  EXPECT_EQ(code([&] { deck.section("steps"); }), ExitCode::internal);
  EXPECT_EQ(code([&] { deck.get<std::vector<int>>("steps"); }), ExitCode::internal);
}

TEST(Deck, ResolvedRoundTrips) {
  const Deck deck = parse(
      minimal, {"train.lr=0.1000000000000000055511151231257827", "train.gravity=-4.9406564584124654e-324",
                "title=tab\tquote\"'\\ #:[] \u00e4\u20ac", "fields.0.missing=-.inf", "fields.0.name=1e5",
                "walltime=0.30000000000000004", "partition={a: weights, b: even}",
                "partition.a.weights=[1e300]", "splits=[[1],[]]", "ema.decay=0.3"});
  const std::string text = deck.resolved();
  const Deck again = Deck::parse(test_schema(), {{"again", text}});
  EXPECT_EQ(again.resolved(), text);
  for (const char* key : {"train.lr", "train.gravity", "fields.0.missing", "walltime", "ema.decay"}) {
    EXPECT_EQ(again.get<double>(key), deck.get<double>(key)) << key;
  }
  EXPECT_EQ(again.get<std::string>("title"), deck.get<std::string>("title"));
  EXPECT_EQ(again.get<std::string>("fields.0.name"), "1e5");
  EXPECT_EQ(again.get<std::vector<double>>("partition.a.weights"), (std::vector<double>{1e300}));
  EXPECT_EQ(deck.section("model").resolved(),
            "type: vit\nchannels: 2\ndepth: 12\nheads: 4\nmlp:\n  ratio: 4\n");
}

TEST(Deck, HelpNamesEveryKey) {
  const Schema schema = test_schema();
  const std::string text = help(schema);
  const std::string markdown = help_markdown(schema);
  EXPECT_EQ(schema.paths().size(), 28U);
  for (const std::string& path : schema.paths()) {
    EXPECT_NE(text.find("  " + path), std::string::npos) << path;
    EXPECT_NE(markdown.find("`" + path + "`"), std::string::npos) << path;
  }
  EXPECT_NE(text.find("list of sections, 1 to 4 entries; required"), std::string::npos) << text;
  EXPECT_NE(text.find("number in (0, 1]; default 0.001"), std::string::npos) << text;
  EXPECT_NE(markdown.find("| `train.gravity` | number | m/s^2 | `9.81` |  | a \\| b |"), std::string::npos)
      << markdown;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100U);
  }
}

TEST(Deck, ReadsFiles) {
  const std::string path = ::testing::TempDir() + "deck_test.yaml";
  std::ofstream(path) << minimal;
  EXPECT_EQ(read_deck_file(path).text, minimal);
  std::ofstream(path) << std::string(3 << 20, 'x');
  EXPECT_THROW(read_deck_file(path), Error);
  EXPECT_THROW(read_deck_file("/nowhere/deck.yaml"), Error);
  EXPECT_THROW(read_deck_file("/"), Error);
  std::remove(path.c_str());
}

TEST(Deck, NearestKey) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("depth", "dpeth"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  const std::vector<std::string> keys{"depth", "width", "heads"};
  EXPECT_EQ(nearest("widht", keys), "width");
  EXPECT_EQ(nearest("Depth", keys), "depth");
  EXPECT_EQ(nearest("HEAD", keys), "heads");
  EXPECT_EQ(nearest("zzz", keys), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'a'), keys), "");
}

TEST(Deck, Durations) {
  EXPECT_EQ(parse_duration("01:02:03"), 3723);
  EXPECT_EQ(parse_duration("1-00:00:01"), 86401);
  EXPECT_EQ(parse_duration("100:00:00"), 360000);
  EXPECT_EQ(parse_duration("2.5"), 2.5);
  for (const char* text :
       {"", "1:2", "1:2:", "a", "-1", "1:60:00", "-1:00:00", "1-", "inf", "1:00:00:00", "1:-1:00"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

}  // namespace
}  // namespace tessera::testing
