#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/bench/limits.hpp"
#include "parallel/layout.hpp"

namespace tessera::bench {

struct Kind;

/// One row of a sweep.
struct Case {
  const Kind* kind = nullptr;
  std::string model;  ///< of the kinds that run a model, else empty
  Index size = 0;
  DType precision = DType::f32;
  int ranks = 1;
  bool ddp = false;     ///< every rank has a sample of its own; else all share one
  bool uneven = false;  ///< cut points in proportion 3 : 2 : 3 : 2 ...
};

/// Where a case runs.
struct Place {
  CommPtr group;
  Limits& limits;
  std::filesystem::path folder;               ///< of files that are written and read
  std::optional<std::filesystem::path> save;  ///< for the weights and samples of a training step
};

/// What a case does, made on every rank of its group.
struct Work {
  std::function<void()> run;
  double amount = 0;              ///< operations, bytes or cells of one run, all ranks together
  std::string limit_name;         ///< what `limit` is the rate of
  std::function<double()> limit;  ///< of the whole group, in the kind's unit; collective; 0: there is none
  std::shared_ptr<std::vector<double>> losses = nullptr;  ///< of the first training steps
};

struct Kind {
  std::string name;
  std::string summary;
  std::string size;               ///< what the size is: "rows and columns of both matrices"
  std::string unit;               ///< of the achieved rate
  std::vector<Index> sizes = {};  ///< default; empty where the model has its own
  std::vector<DType> precisions = {};
  bool models = false;    ///< runs one of models()
  bool ddp = false;       ///< can give every rank a sample of its own
  bool messages = false;  ///< only moves data between ranks: nothing on one rank, no speed-up on more
  Work (*make)(const Place& place, const Case& c) = nullptr;
};

std::span<const Kind> kinds();
/// Throws (usage), with the nearest name, where there is none.
const Kind& find_kind(const std::string& name);

/// The mesh (domain: all ranks) and a layout that cuts dimension `dim` of `shape` over it, at multiples of
/// `unit`.
Layout cut_over(const CommPtr& group, const Shape& shape, int dim, bool uneven, Index unit = 1);
Partition cut_points(Index extent, int parts, bool uneven, Index unit = 1);

// One file per family.
Work make_gemm(const Place& place, const Case& c);
Work make_conv(const Place& place, const Case& c);
Work make_conv_3d(const Place& place, const Case& c);
Work make_attention(const Place& place, const Case& c);
Work make_halo(const Place& place, const Case& c);
Work make_ring(const Place& place, const Case& c);
Work make_reduce(const Place& place, const Case& c);
Work make_stencil(const Place& place, const Case& c);
Work make_io_write(const Place& place, const Case& c);
Work make_io_read(const Place& place, const Case& c);
Work make_train_step(const Place& place, const Case& c);
Work make_predict_step(const Place& place, const Case& c);

}  // namespace tessera::bench
