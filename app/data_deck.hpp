#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/deck/deck.hpp"
#include "parallel/axis_map.hpp"
#include "solver/train/reader_thread.hpp"
#include "solver/train/sample.hpp"

namespace tessera {

/// Keys of the section `data`: files, splits, and what a sample is made of.
void describe_data(Section& section);

enum class SplitName : std::uint8_t { train, valid, test };
inline constexpr std::string_view kSplitNames[] = {"train", "valid", "test"};

/// The samples of one split and the source that holds them.
struct Split {
  FieldSourcePtr source;
  std::vector<SampleId> samples;
};

/// A data set as a deck describes it.
struct DataSet {
  Split splits[3];  ///< by SplitName
  SampleSpec spec;
  std::optional<Harmonics> seasonal;
  bool normalise = true;
  std::size_t cache_bytes = 0;

  const Split& split(SplitName name) const { return splits[static_cast<int>(name)]; }
  const FieldSet& fields() const { return splits[0].source->fields(); }
  Shape grid() const { return fields().grid(); }
  /// Per grid axis: periodic where both of its ends are, else zero.
  InlineVector<Boundary> boundaries() const;
};

/// Opens the files (independent reads on every rank) and lists the samples. Errors name the place in the
/// deck, or the file.
DataSet open_data(const Deck& deck);

/// Mean and standard deviation over the training samples' steps of the predicted fields and of the constants
/// (0 and 1 where the deck says `normalise: none`). Each rank reads its own box and every ddp group its share
/// of the steps. Collective over `mesh`.
struct DataNormalisation {
  Normalisation fields, constants;
};
DataNormalisation measure_normalisation(const DataSet& data, const Mesh& mesh, const Layout& grid);

}  // namespace tessera
