#pragma once

#include <span>
#include <string>

#include "app/run.hpp"
#include "io/deck/schema.hpp"

namespace tessera {

/// A command of the program. Runs on all ranks; returns the exit code, throws Error.
struct Command {
  std::string name;     ///< "train", "post compare"
  std::string summary;  ///< one line of --help
  std::string files;    ///< what its arguments are, "TRUTH PREDICTION"; "[...]": it needs none; empty: a deck
  Schema (*schema)();   ///< of its deck; of a command with files, of its key=value arguments
  int (*run)(const CommPtr& world, const CommandLine& line);
  std::string (*details)() = nullptr;  ///< more about it, for its own --help
};

/// All commands, in the order in which --help lists them.
std::span<const Command> commands();

Schema train_schema();
int train(const CommPtr& world, const CommandLine& line);
/// Of a deck of `train`.
int plan(const CommPtr& world, const CommandLine& line);
Schema predict_schema();
int predict(const CommPtr& world, const CommandLine& line);
Schema simulate_schema();
int simulate(const CommPtr& world, const CommandLine& line);
Schema post_info_schema();
int post_info(const CommPtr& world, const CommandLine& line);
Schema post_compare_schema();
int post_compare(const CommPtr& world, const CommandLine& line);
Schema post_plot_schema();
int post_plot(const CommPtr& world, const CommandLine& line);
Schema bench_schema();
std::string bench_details();
int bench_command(const CommPtr& world, const CommandLine& line);

}  // namespace tessera
