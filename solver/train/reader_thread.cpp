#include "solver/train/reader_thread.hpp"

namespace tessera {

ReaderThread::ReaderThread() : thread_([this] { run(); }) {}

ReaderThread::~ReaderThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  wake_.notify_one();
  thread_.join();
}

std::future<SampleMaker::Values> ReaderThread::submit(SampleMaker& maker, SampleId id) {
  Job job([&maker, id] { return maker.read(id.trajectory, id.step); });
  std::future<SampleMaker::Values> result = job.get_future();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return result;
}

void ReaderThread::run() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace tessera
