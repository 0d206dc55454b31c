// Files written on a thread beside the computation: the same bytes, in order, and errors that reach every
// rank.
#include "io/writer_thread.hpp"

#include <atomic>
#include <thread>

#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/fields/background_field_writer.hpp"
#include "io/hdf5/file.hpp"
#include "tests/io/io_test_support.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::has;
using testing::SharedFolder;
using testing::uneven_box;
using testing::world;

const Shape kGrid{12, 9};

FieldFileSpec spec_of(DType type, int deflate) {
  FieldFileSpec spec;
  spec.dataset_name = "waves";
  spec.time_unit = "s";
  for (const char* name : {"y", "x"}) {
    GridAxis axis{name, "m", {}, {EdgeKind::wall, EdgeKind::wall}};
    for (Index i = 0; i < kGrid[spec.axes.size() == 0 ? 0 : 1]; ++i)
      axis.coordinates.push_back(static_cast<double>(i));
    spec.axes.push_back(axis);
  }
  spec.fields = {{"height", "m", 0, true}, {"velocity", "m/s", 1, true}, {"bed", "m", 0, false}};
  spec.trajectories = 2;
  spec.type = type;
  spec.deflate = deflate;
  return spec;
}

std::vector<double> values_of(const Box& box, Index trajectory, Index step, Index channels) {
  std::vector<double> values;
  for (Index y = box[0].lo; y < box[0].hi; ++y) {
    for (Index x = box[1].lo; x < box[1].hi; ++x) {
      for (Index c = 0; c < channels; ++c)
        values.push_back(static_cast<double>((((trajectory * 10 + step) * 20 + y) * 20 + x) * 4 + c) / 7);
    }
  }
  return values;
}

template <typename Static, typename Append>
void write_all(const Static& write_static, const Append& append) {
  for (Index b = 0; b < 2; ++b) {
    write_static(b);
    for (Index t = 0; t < 5 - b; ++t) append(b, t, 0.5 * static_cast<double>(t));
  }
}

TEST(BackgroundFieldWriter, WritesTheBytesOfFieldWriter) {
  const SharedFolder folder;
  const Box box = uneven_box(kGrid);
  for (const auto& [type, deflate] : {std::pair{DType::f32, 0}, {DType::f64, 0}, {DType::f32, 4}}) {
    const std::string plain = folder.file("plain/fields.hdf5"), beside = folder.file("beside/fields.hdf5");
    testing::on_root([&] {
      for (const char* name : {"plain", "beside"}) std::filesystem::create_directories(folder.file(name));
    });
    {
      FieldWriter writer(world(), plain, spec_of(type, deflate));
      write_all([&](Index b) { writer.write_static(b, box, values_of(box, b, 0, 1).data()); },
                [&](Index b, Index t, double time) {
                  writer.append(b, time, box, values_of(box, b, t, 3).data());
                });
      writer.close();
    }
    WriterThread thread(world());
    BackgroundFieldWriter writer(thread, beside, spec_of(type, deflate));
    write_all([&](Index b) { writer.write_static(b, box, values_of(box, b, 0, 1)); },
              [&](Index b, Index t, double time) {
                writer.append(b, time, box, values_of(box, b, t, 3));
                // Messages of the program while the thread writes.
                EXPECT_EQ(world()->all_reduce_value<Index>(t, ReduceOp::max), t);
              });
    writer.close();
    testing::on_root([&] {
      for (const char* suffix : {".hdf5", ".xdmf"}) {
        const auto named = [&](std::string path) {
          return std::filesystem::path(path).replace_extension(suffix);
        };
        EXPECT_TRUE(read_text(named(plain)) == read_text(named(beside))) << suffix << " deflate " << deflate;
      }
    });
  }
}

TEST(BackgroundFieldWriter, LeavesNothingWithoutClose) {
  const SharedFolder folder;
  const Box box = uneven_box(kGrid);
  {
    WriterThread thread(world());
    BackgroundFieldWriter writer(thread, folder.file("fields.hdf5"), spec_of(DType::f32, 0));
    for (Index t = 0; t < 4; ++t) writer.append(0, 0.0, box, values_of(box, 0, t, 3));
  }
  world()->barrier();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BackgroundFieldWriter, ErrorsReachEveryRank) {
  const SharedFolder folder;
  const Box box = uneven_box(kGrid);
  WriterThread thread(world());
  const std::string text = error_text([&] {
    BackgroundFieldWriter writer(thread, folder.file("nowhere/fields.hdf5"), spec_of(DType::f32, 0));
    for (Index t = 0; t < 4; ++t)
      run_together(*world(), [&] { writer.append(0, 0.0, box, values_of(box, 0, t, 3)); });
  });
  has(text, "nowhere");
  // The thread stays with its error.
  EXPECT_THROW(thread.drain(), Error);
}

TEST(WriterThread, AnErrorOnOneRankReachesTheOthers) {
  WriterThread thread(world());
  const int last = world()->size() - 1;
  const std::string text = error_text(
      [&] {
        for (int k = 0; k < 20; ++k) {
          run_together(*world(), [&] {
            thread.submit([k, last] {
              if (world()->rank() == last && k == 3)
                fail(ExitCode::numerical, "job", "rank {} of the test", last);
            });
          });
        }
        run_together(*world(), [&] { thread.drain(); });
      },
      ExitCode::numerical);
  has(text, "[job] rank");
}

TEST(WriterThread, RunsJobsInOrderAndBoundsTheQueue) {
  std::vector<int> order;
  std::atomic<int> begun{0};
  std::atomic<bool> go{false};
  {
    WriterThread thread(world(), 2);
    for (int k = 0; k < 50; ++k) {
      thread.submit([&, k] {
        ++begun;
        while (!go) std::this_thread::yield();
        order.push_back(k);
        // Collective over the thread's own group.
        EXPECT_EQ(thread.comm()->all_reduce_value<Index>(k, ReduceOp::max), k);
      });
      // One runs and two wait: the fourth submit() would not return before the first job ends.
      if (k == 2) {
        while (begun < 1) std::this_thread::yield();
        EXPECT_EQ(begun, 1);
        go = true;
      }
      EXPECT_LE(k, begun + 2);
    }
    thread.drain();
    EXPECT_EQ(begun, 50);
  }
  ASSERT_EQ(order.size(), 50U);
  for (int k = 0; k < 50; ++k) EXPECT_EQ(order[static_cast<std::size_t>(k)], k);
}

TEST(WriterThread, AJobThatHangsIsLeftBehindByAnError) {
  std::atomic<bool> begun{false}, go{false};
  const auto token = std::make_shared<int>();  // goes with the job, after its last message
  bool done = false;
  try {
    WriterThread thread(world());
    thread.submit([&, token] {
      begun = true;
      while (!go) std::this_thread::yield();
    });
    while (!begun) std::this_thread::yield();
    fail(ExitCode::numerical, "test", "the program fails");
  } catch (const Error& error) {
    done = error.code() == ExitCode::numerical;
  }
  EXPECT_TRUE(done);
  EXPECT_TRUE(hdf5::files_abandoned());
  go = true;
  while (token.use_count() > 1) std::this_thread::yield();
}

}  // namespace
}  // namespace tessera
