#pragma once

#include <string>
#include <vector>

#include "io/hdf5/attributes.hpp"
#include "io/hdf5/types.hpp"
#include "parallel/box.hpp"

namespace tessera::hdf5 {

/// How the ranks of a parallel file meet in a transfer; without meaning in a serial one.
enum class Transfer {
  collective,   ///< every rank of the file's communicator calls, with its own box, which may be empty
  independent,  ///< this rank alone
};

/// How a new dataset is stored.
struct DatasetSpec {
  Element element = Element::f32;
  Shape shape;
  Shape chunk;            ///< empty: contiguous
  int deflate = 0;        ///< 0 none ... 9; needs chunks
  bool growable = false;  ///< every extent unlimited; needs chunks
  bool fill_nan = false;  ///< what was never written reads as NaN (floating types)
};

/// An open dataset. Transfers convert between the file's type and T = float, double, std::int64_t,
/// std::uint8_t (booleans).
class Dataset : public Object {
 public:
  Dataset(std::shared_ptr<const FileState> file, Handle id, std::string path);

  const Shape& shape() const { return shape_; }
  Element element() const { return element_; }
  /// Of a chunked dataset; empty where it is contiguous.
  Shape chunk() const;
  /// True where the file stores numbers that are exact in float.
  bool is_single() const { return element_ == Element::f32; }
  /// Throws Error(input_file) unless the shape is `expected`; -1 stands for any extent.
  void expect_shape(const Shape& expected) const;
  void expect_dims(int dims) const;

  /// Reads `box` into `to`, contiguous, row-major, box.volume() elements.
  template <typename T>
  void read(const Box& box, T* to, Transfer transfer = Transfer::collective) const;
  /// Writes `box` from `from`, laid out alike.
  template <typename T>
  void write(const Box& box, const T* from, Transfer transfer = Transfer::collective);
  /// The whole of a small dataset (coordinates, scalars), on this rank alone; throws where it has more than
  /// `most` elements.
  template <typename T>
  std::vector<T> read_all(Index most = Index{1} << 24) const;
  /// Changes the extents of a growable dataset; collective in a parallel file.
  void resize(const Shape& shape);

  /// The dimension scale attached to dimension d as an absolute path; "" if there is none.
  std::string scale_path(int d) const;

 private:
  void transfer(bool writing, const Box& box, Id memory_type, void* data, Transfer transfer) const;

  Shape shape_;
  Element element_ = Element::other;
};

}  // namespace tessera::hdf5
