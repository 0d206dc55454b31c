#include "app/command_line.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>

#include "app/build_info.hpp"
#include "io/deck/help.hpp"
#include "io/deck/scalar.hpp"
#include "io/hint.hpp"
#include "parallel/error.hpp"

namespace tessera {
namespace {

constexpr const char* kWhere = "command line";

constexpr const char* kFooter =
    "Exit codes:\n"
    "  0  done\n"
    "  1  internal fault\n"
    "  2  bad command line or deck\n"
    "  3  an input file is missing, damaged or does not fit\n"
    "  4  numerical failure (NaN, a time step that collapsed)\n"
    "  5  communication failure or timeout\n"
    "  6  stopped early by walltime, a signal or a file; continue with -r latest\n";

/// What CLI11 fills in before it is made a CommandLine.
struct Words {
  std::string help;
  std::vector<std::string> positional;
  std::string input, restart, walltime;
};

/// The subcommand of that name, or null.
CLI::App* find_subcommand(CLI::App& app, const std::string& name) {
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == name) return sub;
  }
  return nullptr;
}

class Parser {
 public:
  explicit Parser(std::span<const Command> commands) : commands_(commands) {
    app_.set_help_flag();
    app_.require_subcommand(0, 1);
    app_.footer(kFooter);
    add_help(app_);
    app_.add_flag("--version", version_, "version, git hash, compiler, backends, libraries");
    for (const Command& command : commands) add_command(command);
  }

  Invocation parse(const std::vector<std::string>& arguments) {
    check_command_name(arguments);
    try {
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app_.parse(std::move(reversed));
    } catch (const CLI::ExtrasError&) {
      refuse_extras();
    } catch (const CLI::ParseError& error) {
      fail(ExitCode::usage, kWhere, "{}", error.what());
    }
    if (version_) return {nullptr, {}, build_info()};
    const Command* command = chosen();
    if (wants_help(command)) return {nullptr, {}, help_text(command)};
    if (!command) fail(ExitCode::usage, kWhere, "no command: expected {}; see tessera --help", names(" | "));
    return {command, finish(*command), {}};
  }

 private:
  void add_help(CLI::App& app) {
    app.add_option("-h,--help", words_.help,
                   "this text; with `deck`: all keys of the deck; with `markdown`: those as a Markdown table")
        ->expected(0, 1)
        ->type_name("[deck|markdown]");
  }

  static bool needs_none(const Command& command) { return command.files.starts_with("["); }

  CLI::App& parent_of(const std::string& name) {
    const auto space = name.find(' ');
    if (space == std::string::npos) return app_;
    const std::string group = name.substr(0, space);
    if (CLI::App* there = find_subcommand(app_, group)) return *there;
    CLI::App* added = app_.add_subcommand(group, "work on files");
    added->set_help_flag();
    added->require_subcommand(0, 1);
    add_help(*added);
    return *added;
  }

  void add_command(const Command& command) {
    const std::string last = command.name.substr(command.name.find(' ') + 1);
    CLI::App* sub = parent_of(command.name).add_subcommand(last, command.summary);
    subcommands_[command.name] = sub;
    sub->set_help_flag();
    sub->footer(kFooter);
    add_help(*sub);
    const bool reads_deck = command.files.empty();
    sub->add_option(reads_deck            ? "DECK"
                    : needs_none(command) ? "KIND"
                                          : "FILES",
                    words_.positional,
                    reads_deck ? "input deck, and values that override the deck's"
                    : needs_none(command)
                        ? "what to measure, listed above; any option may be written key=value, too"
                        : command.files + ", and values other than the defaults")
        ->type_name(reads_deck            ? "[key.path=value ...]"
                    : needs_none(command) ? ""
                                          : "[key=value ...]")
        ->expected(-1);
    sub->add_flag("-q,--quiet", line_.quiet, "print errors and warnings alone");
    sub->add_flag("-v,--verbose", line_.verbose, "print more")->excludes("--quiet");
    if (command.name == "plan") {
      add_plan_options(*sub);
    } else if (reads_deck) {
      add_deck_options(*sub);
    } else {
      add_key_options(*sub, command.schema());
    }
  }

  /// `--some-key value` is another way to write `some_key=value`, and `--some-key` alone `some_key=true`;
  /// `-o` stands for `--out`.
  void add_key_options(CLI::App& sub, const Schema& schema) {
    for (const SchemaKey& key : schema.root().keys()) {
      const std::string name = key.name();
      std::string option = (name == "out" ? "-o,--" : "--") + name;
      std::replace(option.begin(), option.end(), '_', '-');
      if (key.type() == KeyType::boolean) {
        sub.add_flag_callback(
            option, [this, name] { line_.overrides.push_back(name + "=true"); }, key.help());
        continue;
      }
      const bool list = key.type() == KeyType::list;
      auto take = [this, name, list](const std::string& value) {
        const bool bare = list && !value.starts_with("[");
        line_.overrides.push_back(name + "=" + (bare ? "[" + value + "]" : value));
      };
      sub.add_option_function<std::string>(option, take, key.help())->type_name(key.type_text());
    }
  }

  void add_plan_options(CLI::App& sub) {
    sub.add_option("-i,--input", words_.input, "the deck, instead of as an argument")->type_name("DECK");
    sub.add_option(
           "--ranks", line_.ranks,
           "ranks to plan for; default: as many as the deck's mesh multiplies to, else those of this run")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
  }

  void add_deck_options(CLI::App& sub) {
    sub.add_option("-d,--dir", line_.folder, "folder to write into; default runs/<deck name>")
        ->type_name("DIR");
    sub.add_flag("--force", line_.force, "write into a folder that is not empty");
    sub.add_option("-i,--input", words_.input, "the deck, instead of as an argument")->type_name("DECK");
    sub.add_option("-r,--restart", words_.restart, "continue from a checkpoint: latest, a step, or a path")
        ->type_name("WHICH");
    sub.add_option("-t,--walltime", words_.walltime, "checkpoint and stop before this time is up")
        ->type_name("HH:MM:SS");
    sub.add_flag("-n,--dry-run", line_.dry_run, "check everything, print the plan, write nothing");
    sub.add_flag("--profile", line_.profile,
                 "at the end, print where the first rank's time went, by operator, forward and backward");
    sub.add_flag("--comm-stats", line_.comm_stats,
                 "at the end, print the communication of all ranks by operator, forward and backward");
  }

  std::string names(const char* separator) const {
    std::string result;
    for (const Command& command : commands_) result += (result.empty() ? "" : separator) + command.name;
    return result;
  }

  /// The first argument, and of a group the second one, must name a command.
  void check_command_name(const std::vector<std::string>& arguments) {
    CLI::App* level = &app_;
    std::string group;
    for (const std::string& argument : arguments) {
      if (argument.starts_with("-") || argument == "deck" || argument == "markdown") return;
      std::vector<std::string> candidates;
      for (const CLI::App* sub : level->get_subcommands([](const CLI::App*) { return true; })) {
        candidates.push_back(sub->get_name());
      }
      if (candidates.empty()) return;
      CLI::App* next = find_subcommand(*level, argument);
      if (!next) {
        fail(ExitCode::usage, kWhere, "unknown command '{}{}': expected {}{}", group, argument, names(" | "),
             nearest_hint(argument, candidates));
      }
      level = next;
      group += argument + " ";
    }
  }

  const Command* chosen() const {
    const auto at = std::find_if(commands_.begin(), commands_.end(),
                                 [&](const Command& c) { return subcommands_.at(c.name)->parsed(); });
    return at == commands_.end() ? nullptr : &*at;
  }

  [[noreturn]] void refuse_extras() const {
    const std::vector<std::string> extras = app_.remaining(true);
    const Command* command = chosen();
    std::vector<std::string> known;
    for (const CLI::Option* option : (command ? *subcommands_.at(command->name) : app_).get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      for (const std::string& name : option->get_snames()) known.push_back("-" + name);
    }
    const std::string first = extras.empty() ? "" : extras.front();
    fail(ExitCode::usage, kWhere, "unknown option '{}'{}", first, nearest_hint(first, known));
  }

  bool wants_help(const Command* command) const {
    if (app_.get_option("--help")->count() > 0) return true;
    for (const CLI::App* sub : app_.get_subcommands()) {
      if (sub->get_option("--help")->count() > 0) return true;
    }
    return command && subcommands_.at(command->name)->get_option("--help")->count() > 0;
  }

  std::string help_text(const Command* command) {
    const bool markdown = words_.help == "markdown";
    if (words_.help == "deck" || markdown) {
      std::string text;
      for (const Command& c : commands_) {
        if (command && &c != command) continue;
        const Schema schema = c.schema();
        text += (text.empty() ? "" : "\n") + (markdown ? help_markdown(schema) : help(schema));
      }
      return text;
    }
    if (!command) {
      const auto groups = app_.get_subcommands();
      return groups.empty() ? app_.help() : groups.front()->help("tessera");
    }
    CLI::App& sub = *subcommands_.at(command->name);
    if (command->details) sub.description(command->summary + "\n\n" + command->details());
    const auto space = command->name.find(' ');
    const std::string group = space == std::string::npos ? "" : " " + command->name.substr(0, space);
    return sub.help("tessera" + group);
  }

  CommandLine finish(const Command& command) {
    line_.command = command.name;
    line_.deck_path = words_.input;
    for (const std::string& word : words_.positional) {
      if (word.find('=') != std::string::npos) {
        line_.overrides.push_back(word);
      } else if (!command.files.empty()) {
        line_.files.push_back(word);
      } else if (line_.deck_path.empty()) {
        line_.deck_path = word;
      } else {
        fail(ExitCode::usage, kWhere, "'{}': there is a deck already, '{}'; expected key.path=value", word,
             line_.deck_path);
      }
    }
    if (command.files.empty() && line_.deck_path.empty()) {
      fail(ExitCode::usage, kWhere, "no deck: expected tessera {} DECK", command.name);
    }
    if (!command.files.empty() && !needs_none(command) && line_.files.empty()) {
      fail(ExitCode::usage, kWhere, "no files: expected tessera {} {}", command.name, command.files);
    }
    if (!words_.restart.empty()) line_.restart = words_.restart;
    if (!words_.walltime.empty()) {
      line_.walltime = parse_duration(words_.walltime);
      if (!line_.walltime || *line_.walltime <= 0) {
        fail(ExitCode::usage, kWhere, "--walltime: found '{}', expected hh:mm:ss or seconds",
             words_.walltime);
      }
    }
    return line_;
  }

  std::span<const Command> commands_;
  CLI::App app_{"Domain-parallel surrogates of physical fields: simulate, train, predict, compare.",
                "tessera"};
  std::map<std::string, CLI::App*> subcommands_;
  bool version_ = false;
  Words words_;
  CommandLine line_;
};

}  // namespace

Invocation parse_command_line(std::span<const Command> commands, const std::vector<std::string>& arguments) {
  return Parser(commands).parse(arguments);
}

}  // namespace tessera
