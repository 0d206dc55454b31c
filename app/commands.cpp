#include "app/commands.hpp"

namespace tessera {

std::span<const Command> commands() {
  static const Command all[] = {
      {"simulate", "run a physics solver, write its fields as HDF5", "", simulate_schema, simulate},
      {"train", "train a surrogate on fields", "", train_schema, train},
      {"predict", "roll a surrogate forward", "", predict_schema, predict},
      {"plan", "what training would cost: partition, memory, operations, traffic; runs nothing", "",
       train_schema, plan},
      {"post info", "what files hold: fields, grid, steps, units, ranges; checkpoints; runs", "FILE ...",
       post_info_schema, post_info},
      {"post compare", "metrics of predictions, per field and lead time", "TRUTH PREDICTION [PREDICTION ...]",
       post_compare_schema, post_compare},
      {"post plot", "draw fields, loss curves or a comparison as PNG",
       "TRUTH PREDICTION ... | FIELDS | history.jsonl ... | compare.json", post_plot_schema, post_plot},
      {"bench", "measure operators, messages, files and training steps against what the machine can do",
       "[KIND ...]", bench_schema, bench_command, bench_details},
  };
  return all;
}

}  // namespace tessera
