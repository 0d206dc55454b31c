#include "solver/train/training_checkpoint.hpp"

#include "io/safetensors/safetensors.hpp"

namespace tessera {
namespace {

Box box_of(const Tensor& t) {
  return t.is_shard() ? t.layout().local_box() : Box::whole(t.shape());
}

MemoryBlock host_copy(const Tensor& t) {
  MemoryBlock block(MemorySpace::host, t.bytes());
  copy_bytes(block.data(), MemorySpace::host, t.raw(), MemorySpace::device, t.bytes());
  return block;
}

}  // namespace

std::filesystem::path save_tensors(Communicator& comm, const std::filesystem::path& root, Index step,
                                   const std::string& state, const std::vector<NamedTensor>& tensors) {
  std::vector<MemoryBlock> copies;
  std::vector<SavedArray> arrays;
  for (const NamedTensor& t : tensors) {
    copies.push_back(host_copy(t.tensor));
    arrays.push_back({t.name, t.tensor.dtype(), t.tensor.shape(), box_of(t.tensor), copies.back().data()});
  }
  return save_checkpoint(comm, root, step, state, arrays);
}

void load_tensors(const Checkpoint& checkpoint, const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& t : tensors) {
    const MemoryBlock block(MemorySpace::host, t.tensor.bytes());
    checkpoint.read(t.name, t.tensor.dtype(), t.tensor.shape(), box_of(t.tensor), block.data());
    copy_bytes(t.tensor.raw(), MemorySpace::device, block.data(), MemorySpace::host, t.tensor.bytes());
  }
}

void import_safetensors(const std::string& path, const std::vector<NamedTensor>& parameters) {
  const SafetensorsFile file(path);
  for (const NamedTensor& p : parameters) {
    const MemoryBlock block(MemorySpace::host, p.tensor.bytes());
    file.read(p.name, p.tensor.shape(), box_of(p.tensor), p.tensor.dtype(), block.data());
    copy_bytes(p.tensor.raw(), MemorySpace::device, block.data(), MemorySpace::host, p.tensor.bytes());
  }
}

void export_safetensors(const CommPtr& comm, const std::string& path,
                        const std::vector<NamedTensor>& parameters) {
  std::vector<SafetensorsItem> items;
  for (const NamedTensor& p : parameters) items.push_back({p.name, p.tensor.dtype(), p.tensor.shape()});
  SafetensorsWriter writer(comm, path, items, {{"format", "pt"}});
  for (const NamedTensor& p : parameters) {
    // A plain tensor is the same everywhere: the first rank writes it.
    if (p.tensor.is_shard() || comm->rank() == 0)
      writer.write(p.name, box_of(p.tensor), host_copy(p.tensor).data());
  }
  writer.close();
}

}  // namespace tessera
