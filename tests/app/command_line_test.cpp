// What the program answers: texts, exit codes, messages once whatever the number of ranks, nothing half
// written.
#include "tests/app/answers.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

const char* const kWaves = R"(simulate:
  grid: [8, 12]
  lengths: [8, 12]
  sides: {y: wall}
  initial: {type: bumps, amplitude: 0.2, width: 2}
  every: 0.2
  steps: 4
output:
  trajectories: 4
  split: {train: 2, valid: 1, test: 1}
)";

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Answers, Texts) {
  const fs::path folder = fresh_folder("texts");
  const Launch version = tessera(folder, "--version");
  EXPECT_TRUE(succeeded(version));
  for (const char* part :
       {"tessera 0.", "git ", "compiler ", "  Kokkos ", "  MPI ", "  HDF5 ", "  oneDNN "}) {
    EXPECT_EQ(occurrences(version.out, part), 1) << part << "\n" << version.out;
  }
  const Launch help = tessera(folder, "--help");
  EXPECT_TRUE(succeeded(help));
  for (const char* part :
       {"\n  simulate ", "\n  train ", "\n  predict ", "Exit codes:", "  6  stopped early"}) {
    EXPECT_EQ(occurrences(help.out, part), 1) << part << "\n" << help.out;
  }
  const Launch deck = tessera(folder, "simulate --help deck");
  EXPECT_TRUE(succeeded(deck));
  EXPECT_EQ(occurrences(deck.out, "  simulate.gravity "), 1) << deck.out;
  EXPECT_NE(deck.out.find("default 9.81"), std::string::npos) << deck.out;
  const Launch markdown = tessera(folder, "train --help markdown");
  EXPECT_TRUE(succeeded(markdown));
  EXPECT_EQ(occurrences(markdown.out, "| `train.accumulate` |"), 1) << markdown.out;
}

TEST(Answers, BadCommandLines) {
  const fs::path folder = fresh_folder("lines");
  write_file(folder / "waves.yaml", kWaves);
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    EXPECT_TRUE(failed_with(tessera(folder, arguments), 2, text)) << arguments;
  };
  refused("", "no command: expected simulate | train");
  refused("simulat waves.yaml", "unknown command 'simulat': expected simulate | train");
  refused("simulate waves.yaml --forse", "unknown option '--forse'; nearest name '--force'");
  refused("simulate waves.yaml other.yaml", "there is a deck already");
  refused("simulate", "no deck");
  refused("simulate waves.yaml -t soon", "--walltime: found 'soon'");
  refused("simulate waves.yaml -q -v", "--quiet excludes --verbose");
  refused("simulate none.yaml", "[deck none.yaml] cannot read the file");
  EXPECT_EQ(files_below(folder), 1);
}

TEST(Answers, BadDecks) {
  const fs::path folder = fresh_folder("decks");
  write_file(folder / "waves.yaml", kWaves);
  write_file(folder / "typing.yaml", std::string(kWaves).replace(0, 9, "simulate:\n  gravty: 9"));
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    EXPECT_TRUE(failed_with(tessera(folder, arguments), 2, text)) << arguments;
  };
  refused("simulate typing.yaml",
          "[deck typing.yaml:2:3] unknown key 'simulate.gravty': did you mean 'simulate.gravity'?");
  refused("simulate waves.yaml simulate.gravty=9", "unknown key 'simulate.gravty'");
  refused("simulate waves.yaml simulate.cfl=2", "cfl");
  refused("simulate waves.yaml simulate.until=3", "found both of `steps` and `until`, expected one");
  refused("simulate waves.yaml output.trajectories=5", "the parts' sum is 4, expected the 5 trajectories");
  refused("simulate waves.yaml mesh.ddp=7 mesh.domain=1", "7, but there are " + std::to_string(ranks()));
  refused("simulate waves.yaml 'mesh.partition={type: sizes, sizes: [1, 2, 3, 4, 5]}'",
          "found 5 entries, expected one for each of " + std::to_string(ranks()));
  EXPECT_EQ(files_below(folder), 2);
}

TEST(Simulate, WritesContinuesAndRefuses) {
  const fs::path folder = fresh_folder("simulate");
  write_file(folder / "waves.yaml", kWaves);
  const Launch dry = tessera(folder, "simulate waves.yaml -n");
  EXPECT_TRUE(succeeded(dry));
  EXPECT_EQ(occurrences(dry.out, "8 x 12 cells"), 1) << dry.out;
  EXPECT_EQ(files_below(folder), 1);

  EXPECT_TRUE(succeeded(tessera(folder, "simulate waves.yaml -d run --quiet")));
  for (const char* file :
       {"train/trajectory_00001.hdf5", "valid/trajectory_00002.hdf5", "test/trajectory_00003.xdmf"}) {
    EXPECT_TRUE(fs::exists(folder / "run/data" / file)) << file;
  }
  EXPECT_EQ(files_below(folder / "run"), 9);  // and resolved.yaml
  EXPECT_FALSE(has_partial_file(folder));
  EXPECT_TRUE(failed_with(tessera(folder, "simulate waves.yaml -d run"), 2, "the run folder is not empty"));
  EXPECT_TRUE(
      failed_with(tessera(folder, "simulate waves.yaml -d waves.yaml"), 2, "the run folder is not empty"));
  EXPECT_TRUE(succeeded(tessera(folder, "simulate waves.yaml -d run --force -q")));
  write_file(folder / "other/notes.txt", "");
  EXPECT_TRUE(failed_with(tessera(folder, "simulate waves.yaml -d other -r latest"), 2, "no run's"));

  // A restart makes what is missing and touches nothing else.
  const fs::path one = folder / "run/data/train/trajectory_00001.hdf5";
  const auto untouched = fs::last_write_time(folder / "run/data/test/trajectory_00003.hdf5");
  fs::remove(one);
  EXPECT_TRUE(succeeded(tessera(folder, "simulate waves.yaml -d run -r latest -q")));
  EXPECT_TRUE(fs::exists(one));
  EXPECT_EQ(fs::last_write_time(folder / "run/data/test/trajectory_00003.hdf5"), untouched);
  EXPECT_TRUE(failed_with(tessera(folder, "simulate waves.yaml -d run -r latest simulate.seed=7"), 2,
                          "was made with another section `simulate`"));
}

TEST(Simulate, NumericalFailureLeavesNothingHalfWritten) {
  const fs::path folder = fresh_folder("numerical");
  write_file(folder / "waves.yaml", kWaves);
  const Launch launch = tessera(folder, "simulate waves.yaml -d run simulate.initial.level=1e300 -q");
  EXPECT_TRUE(failed_with(launch, 4, "shallow_water"));
  EXPECT_EQ(files_below(folder / "run/data"), 0);
  // The same where each rank works on a trajectory of its own.
  const Launch apart = tessera(
      folder, "simulate waves.yaml -d apart simulate.initial.level=1e300 -q mesh.ddp=-1 mesh.domain=1");
  EXPECT_TRUE(failed_with(apart, 4, "shallow_water"));
  EXPECT_EQ(files_below(folder / "apart/data"), 0);
}

TEST(Simulate, StopsEarlyAndContinues) {
  const fs::path folder = fresh_folder("stop");
  write_file(folder / "waves.yaml", kWaves);
  const std::string long_run =
      "simulate waves.yaml -d run -q simulate.steps=1000 simulate.every=40 output.split=null "
      "output.trajectories=2";
  const Launch signalled =
      tessera_signalled(folder, long_run, "run/data/train/trajectory_00000.hdf5.partial", "TERM");
  EXPECT_EQ(signalled.code, 6) << signalled.err;
  EXPECT_FALSE(has_partial_file(folder));
  const Launch late = tessera(folder, long_run + " -r latest -t 0:00:01");
  EXPECT_EQ(late.code, 6) << late.err;
  EXPECT_FALSE(has_partial_file(folder));
  write_file(folder / "run/dump_and_stop", "");
  EXPECT_EQ(tessera(folder, long_run + " -r latest").code, 6);
  EXPECT_FALSE(fs::exists(folder / "run/dump_and_stop"));
  EXPECT_TRUE(succeeded(tessera(folder, "simulate waves.yaml -d run -q -r latest simulate.steps=3")));
}

TEST(Plan, CountsForAnyNumberOfRanks) {
  const fs::path folder = fresh_folder("plan");
  write_file(folder / "waves.yaml", kWaves);
  write_file(folder / "train.yaml", R"(data: {path: run}
model: {type: vit, patch: 2, dim: 16, depth: 2}
train: {steps: 4}
)");
  ASSERT_TRUE(succeeded(tessera(folder, "simulate waves.yaml -d run -q")));
  const int files = files_below(folder);
  const auto shows = [&](const std::string& arguments, std::initializer_list<const char*> parts) {
    const Launch launch = tessera(folder, arguments);
    EXPECT_TRUE(succeeded(launch)) << arguments;
    for (const char* part : parts) EXPECT_EQ(occurrences(launch.out, part), 1) << part << "\n" << launch.out;
  };
  shows("plan train.yaml --ranks 6 mesh.ddp=2",
        {"mesh     (ddp: 2, domain: 3): 6 ranks, 3 in each domain group", "y: 8 cells, cut at 0:2:6:8",
         "  rank 1      [2:6, 0:12] ", "memory of a rank", "train.recompute: blocks", "attention send",
         "load: largest over mean 1.5", "gradient reducer all_reduce"});
  shows("plan train.yaml --ranks 1000 mesh.domain=[10,100]",
        {"1000 ranks, 1000 in each domain group", "976 of 1000 ranks have no cells"});
  shows("plan train.yaml --ranks 1", {"traffic of an update: none"});
  shows("train train.yaml -n", {"updates ", "memory of a rank", "train.recompute: none *"});
  shows("train train.yaml -n train.recompute=blocks", {"train.recompute: blocks *"});
  shows("train train.yaml -n train.recompute=auto", {"blocks are not recomputed", "train.recompute: none *"});
  shows("train train.yaml -n train.recompute=auto train.memory=1e-6",
        {"blocks are recomputed", "train.recompute: blocks *"});
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    EXPECT_TRUE(failed_with(tessera(folder, arguments), 2, text)) << arguments;
  };
  refused("plan train.yaml --ranks 5 mesh.ddp=2", "5 ranks cannot be divided by 2");
  refused("plan train.yaml --ranks 5 mesh.ddp=2 mesh.domain=3", "product of the sizes is 6, but there are 5");
  refused("plan train.yaml --ranks 0", "--ranks");
  EXPECT_EQ(files_below(folder), files);
}

}  // namespace
}  // namespace tessera::testing
