// Descriptions of fields, plain files, checkpoints, safetensors files and runs.
#include "app/post_info.hpp"

#include <filesystem>

#include "io/atomic_file.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hdf5/file.hpp"
#include "io/safetensors/safetensors.hpp"
#include "tests/app/post_fixture.hpp"

namespace tessera {
namespace {

using testing::error_text;
using testing::Forecast;
using testing::has;
using testing::on_root;
using testing::SharedFolder;
using testing::world;

TEST(PostInfo, OfFields) {
  const SharedFolder folder;
  const std::string path = folder.file("truth.hdf5");
  Forecast{}.write(path);
  const std::string text = info_text(path, {}, world());
  has(text, "fields in The Well's layout");
  has(text, "2 trajectories of 3 steps");
  has(text, "t = 100 s to t = 102 s (the first trajectory)");
  has(text, "gravity = 9.81");
  has(text, "y     m          5     0    2  periodic");
  has(text, "h      m     scalar      0  10.5        21");
  has(text, "v_x    m/s   vector     20  30.5        41");
  has(text, "git_hash       0123abc");
  EXPECT_EQ(text.find("not finite"), std::string::npos);
  has(info_text(path, {2, false}, world()), "figures from 2 of 6 steps");
  EXPECT_EQ(info_text(path, {0, false}, world()).find("least"), std::string::npos);
}

TEST(PostInfo, OfPlainFiles) {
  const SharedFolder folder;
  const std::string path = folder.file("plain.h5");
  on_root([&] {
    hdf5::File file = hdf5::File::create(path);
    auto data = file.root().create_numbers("u", {2, 3}, std::vector<double>{1, 2, 3, 4, 5, -99});
    data.set_text("units", "K");
    data.set_number("_FillValue", -99);
    file.root().create_group("more").create_numbers("v", {1}, std::vector<double>{7});
    file.root().set_text("history", "made by hand");
    file.close();
  });
  const std::string text = info_text(path, {}, world());
  has(text, "/u       f32   (2, 3)  K         1     3         5        1");
  has(text, "/more/v  f32   (1)     -         7     7         7");
  has(text, "history  made by hand");
}

TEST(PostInfo, OfCheckpointsAndRuns) {
  const SharedFolder folder;
  const std::vector<float> weight(6, 1.0F);
  const Box box{{0, world()->rank() == 0 ? 2 : 0}, {0, 3}};
  std::vector<SavedArray> arrays;
  for (const char* name : {"head.weight", "optimizer.m.head.weight"}) {
    arrays.push_back({name, DType::f32, {2, 3}, box, weight.data()});
  }
  const auto saved = save_checkpoint(*world(), folder.path() / "checkpoints", 40,
                                     R"({"best_step": 20, "deck": "a: 1\nb: 2\n"})", arrays);
  on_root([&] {
    write_text_atomically(folder.file("history.jsonl"),
                          "{\"step\":1,\"loss\":2}\n{\"step\":40,\"valid_loss\":0.25}\n{\"step\":41,\"lo");
    SafetensorsWriter writer(self_communicator(), folder.file("weights.safetensors"),
                             {{"head.weight", DType::f32, {2, 3}}}, {{"format", "pt"}});
    writer.write("head.weight", {{0, 2}, {0, 3}}, weight.data());
    writer.close();
  });
  const std::string checkpoint = info_text(saved.string(), {}, world());
  has(checkpoint, "checkpoint after 40 updates");
  has(checkpoint, "model      1 arrays, 6 numbers, 24 B");
  has(checkpoint, "best_step  20");
  has(checkpoint, "deck       2 lines (all=true prints them)");
  EXPECT_EQ(checkpoint.find("optimizer.m"), std::string::npos);
  has(info_text(saved.string(), {0, true}, world()), "optimizer.m.head.weight");
  const std::string run = info_text(folder.path().string(), {}, world());
  has(run, "checkpoints          updates 40");
  has(run, "2 lines up to step 40");
  has(run, "best valid_loss  0.25 at step 40");
  const std::string weights = info_text(folder.file("weights.safetensors"), {}, world());
  has(weights, "format  pt");
  has(weights, "head.weight  F32  (2, 3)");
}

TEST(PostInfo, RefusesWhatItDoesNotKnow) {
  const SharedFolder folder;
  on_root([&] { write_text_atomically(folder.file("text.hdf5"), "not HDF5"); });
  auto message = [&](const std::string& path) { return error_text([&] { info_text(path, {}, world()); }); };
  has(message(folder.file("none")), "no such file or folder");
  has(message(folder.file("text.hdf5")), "text.hdf5] ");
  on_root([&] { std::filesystem::remove(folder.file("text.hdf5")); });
  has(message(folder.path().string()), "found neither HDF5 files nor a checkpoint nor a run");
}

}  // namespace
}  // namespace tessera
