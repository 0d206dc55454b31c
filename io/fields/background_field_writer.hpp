#pragma once

#include "io/fields/field_writer.hpp"
#include "io/writer_thread.hpp"

namespace tessera {

/// A FieldWriter whose file is created, written and closed on a WriterThread: the calls are those of
/// FieldWriter, and only close() waits for the file. They take the values over, and throw the errors of
/// earlier ones. The file has the same bytes as a FieldWriter's.
class BackgroundFieldWriter {
 public:
  /// Collective over the thread's group. `thread` must outlive the writer.
  BackgroundFieldWriter(WriterThread& thread, std::string path, FieldFileSpec spec);
  ~BackgroundFieldWriter();
  BackgroundFieldWriter(const BackgroundFieldWriter&) = delete;
  BackgroundFieldWriter& operator=(const BackgroundFieldWriter&) = delete;

  template <typename T>
  void append(Index trajectory, double time, const Box& box, std::vector<T> values) {
    thread_.submit([file = file_, trajectory, time, box, values = std::move(values)] {
      (*file)->append(trajectory, time, box, values.data());
    });
  }
  template <typename T>
  void write_static(Index trajectory, const Box& box, std::vector<T> values) {
    thread_.submit([file = file_, trajectory, box, values = std::move(values)] {
      (*file)->write_static(trajectory, box, values.data());
    });
  }
  /// Completes the file and gives it its name.
  void close();

 private:
  WriterThread& thread_;
  std::string path_;
  std::shared_ptr<std::unique_ptr<FieldWriter>> file_;  // null until it is created
};

}  // namespace tessera
