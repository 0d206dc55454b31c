#include "io/fields/background_field_writer.hpp"

#include <filesystem>

#include "io/atomic_file.hpp"

namespace tessera {

BackgroundFieldWriter::BackgroundFieldWriter(WriterThread& thread, std::string path, FieldFileSpec spec)
    : thread_(thread), path_(std::move(path)), file_(std::make_shared<std::unique_ptr<FieldWriter>>()) {
  thread_.submit([file = file_, comm = thread_.comm(), path = path_, spec = std::move(spec)] {
    *file = std::make_unique<FieldWriter>(comm, path, spec);
  });
}

BackgroundFieldWriter::~BackgroundFieldWriter() {
  if (thread_.settle()) return;
  // The thread is still inside HDF5 with this file; what it uses stays to the end of the program.
  static_cast<void>(new auto(file_));
  std::error_code ignored;
  if (thread_.comm()->rank() == 0) std::filesystem::remove(partial_name(path_), ignored);
}

void BackgroundFieldWriter::close() {
  thread_.submit([file = file_] { (*file)->close(); });
  thread_.drain();
}

}  // namespace tessera
