#include <cstdio>
#include <map>
#include <numeric>
#include <optional>

#include <mpi.h>

#include "parallel/runtime.hpp"

namespace tessera {
namespace {

/// How long a failed rank waits for the others to fail, too.
constexpr std::chrono::milliseconds kAgreement{2000};

struct Failure {
  ExitCode code = ExitCode::internal;
  std::string text;
};

/// Waits until all ranks come here; nothing if they do within kAgreement, else who did not.
std::optional<std::string> ranks_that_go_on(Communicator& guard) {
  try {
    guard.barrier();
    return std::nullopt;
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::size_t at = text.find("; ");
    return at == std::string::npos ? text : text.substr(at + 2);
  }
}

/// The texts of all ranks, on every rank.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text) {
  const std::vector<Index> lengths = comm.all_gather_value(static_cast<Index>(text.size()));
  std::string all(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), Index{0})), ' ');
  comm.all_gather(text.data(), all.data(), lengths, DType::u8);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (Index length : lengths) {
    texts.push_back(all.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return texts;
}

void print_distinct(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) ranks_of[texts[rank]].push_back(rank);
  for (const auto& [text, ranks] : ranks_of) {
    std::string who;
    if (ranks.size() < texts.size()) {
      for (std::size_t rank : ranks)
        who += (who.empty() ? (ranks.size() > 1 ? " (ranks " : " (rank ") : ", ") + fmt::to_string(rank);
      who += ")";
    }
    std::fprintf(stderr, "tessera: %s%s\n", text.c_str(), who.c_str());
  }
  std::fflush(stderr);
}

/// The exit code where every rank failed; does not return where only some did.
int end_in_order(Communicator& world, Communicator& guard, const Failure& failure) {
  if (const auto others = ranks_that_go_on(guard)) {
    std::fflush(stdout);
    // A rank that waited in vain may have waited for another one that did: those that still hang are the
    // cause.
    const bool silence = failure.code == ExitCode::communication;
    std::fprintf(stderr, "tessera: rank %d: %s%s%s\n", world.rank(), failure.text.c_str(),
                 silence ? "; after the others gave up, too, " : "", silence ? others->c_str() : "");
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(failure.code));
  }
  const std::vector<std::string> texts = gather_texts(guard, failure.text);
  if (world.rank() == 0) print_distinct(texts);
  return guard.all_gather_value(static_cast<std::int32_t>(failure.code)).front();
}

}  // namespace

int run_guarded(Communicator& world, const std::function<int()>& body) {
  const CommPtr guard = world.split(0, world.rank(), "guard");
  guard->set_timeout(kAgreement);
  std::optional<Failure> failure;
  try {
    return body();
  } catch (const Error& error) {
    failure = {error.code(), error.what()};
  } catch (const std::exception& error) {
    failure = {ExitCode::internal, error.what()};
  } catch (...) {
    failure = {ExitCode::internal, "an exception of unknown type"};
  }
  return end_in_order(world, *guard, *failure);
}

}  // namespace tessera
