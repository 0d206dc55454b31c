#include "io/writer_thread.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "io/agree.hpp"
#include "io/hdf5/file.hpp"

namespace tessera {
namespace {

/// How long a job may take to end once the program fails; less than ranks that failed wait for each other.
constexpr std::chrono::milliseconds kPatience{1500};

/// Between two looks whether the other ranks have come.
constexpr std::chrono::microseconds kPause{300};

/// Returns when all ranks are here. Collective calls would wait, too, but keep a core busy that the program
/// computes on.
void meet(Communicator& comm) {
  if (comm.size() == 1) return;
  std::int32_t here = 1;
  Request request = comm.start_all_reduce(&here, 1, DType::i32, ReduceOp::min);
  while (!request.test()) std::this_thread::sleep_for(kPause);
}

}  // namespace

/// Shared with the thread, which may outlive its owner.
struct WriterThread::State {
  CommPtr comm;
  std::size_t most = 1;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool running = false, stop = false, left_behind = false;
  std::exception_ptr error;
  std::thread thread;

  bool idle() const { return jobs.empty() && !running; }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stop || !jobs.empty(); });
      if (jobs.empty()) return;
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      running = true;
      changed.notify_all();
      lock.unlock();
      std::exception_ptr caught;
      try {
        meet(*comm);
        run_together(*comm, job);
      } catch (...) {
        caught = std::current_exception();
      }
      if (caught) job = nullptr;
      lock.lock();
      if (caught) {
        error = caught;
        jobs.clear();
      }
      running = false;
      changed.notify_all();
    }
  }

  void throw_error() const {
    if (error) std::rethrow_exception(error);
  }
};

WriterThread::WriterThread(const CommPtr& group, std::size_t waiting)
    : comm_(group->split(0, group->rank(), "files")), state_(std::make_shared<State>()) {
  state_->comm = comm_;
  state_->most = waiting;
  state_->thread = std::thread([state = state_] { state->work(); });
}

WriterThread::~WriterThread() {
  if (!settle()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void WriterThread::submit(std::function<void()> job) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&s] { return s.error || s.jobs.size() < s.most; });
  s.throw_error();
  s.jobs.push_back(std::move(job));
  s.changed.notify_all();
}

void WriterThread::drain() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&s] { return s.idle(); });
  s.throw_error();
}

bool WriterThread::settle() noexcept {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.left_behind) return false;
  if (std::uncaught_exceptions() == 0) {
    s.changed.wait(lock, [&s] { return s.idle(); });
    return true;
  }
  s.jobs.clear();
  if (s.changed.wait_for(lock, kPatience, [&s] { return s.idle(); })) return true;
  s.left_behind = true;
  hdf5::abandon_files();
  s.thread.detach();
  return false;
}

}  // namespace tessera
