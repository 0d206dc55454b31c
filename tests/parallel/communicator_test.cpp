#include "parallel/communicator.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/bfloat16.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::world;

int ranks() {
  return world()->size();
}
int me() {
  return world()->rank();
}

/// Conversions between small integers and elements.
template <typename T>
T make(Index value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}
template <typename T>
double number(T value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return to_float(value);
  } else {
    return static_cast<double>(value);
  }
}

/// Uneven, with an empty block unless there is only one rank.
std::vector<Index> uneven_counts(Index scale) {
  std::vector<Index> counts;
  for (int r = 0; r < ranks(); ++r) counts.push_back(scale * ((r + 2) % 3 == 0 && ranks() > 1 ? 0 : r + 1));
  return counts;
}

Index sum(const std::vector<Index>& values) {
  return std::accumulate(values.begin(), values.end(), Index{0});
}

template <typename T>
class Collectives : public ::testing::Test {};
using Elements = ::testing::Types<float, double, bfloat16, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Collectives, Elements);

TYPED_TEST(Collectives, AllReduce) {
  using T = TypeParam;
  const Index p = ranks();
  for (const Index n : {Index{0}, Index{1}, Index{7}, Index{20001}}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) {
      std::vector<T> data;
      for (Index i = 0; i < n; ++i) data.push_back(make<T>(i % 5 + p * me()));
      world()->all_reduce(data.data(), n, dtype_of<T>, op);
      for (Index i = 0; i < n; ++i) {
        const Index total = p * (i % 5) + p * p * (p - 1) / 2;
        Index expected = total;
        if (op == ReduceOp::max) expected = i % 5 + p * (p - 1);
        if (op == ReduceOp::min) expected = i % 5;
        if (op == ReduceOp::avg && std::is_integral_v<T>) expected = total / p;
        const double exact = op == ReduceOp::avg && !std::is_integral_v<T>
                                 ? static_cast<double>(total) / static_cast<double>(p)
                                 : static_cast<double>(expected);
        ASSERT_EQ(number(data[static_cast<std::size_t>(i)]), exact) << "element " << i << " of " << n;
      }
    }
  }
}

TYPED_TEST(Collectives, BroadcastFromEveryRoot) {
  using T = TypeParam;
  for (int root = 0; root < ranks(); ++root) {
    std::vector<T> data(33, make<T>(me() + 1));
    world()->broadcast(data.data(), 33, dtype_of<T>, root);
    for (const T& value : data) EXPECT_EQ(number(value), root + 1);
    world()->broadcast(data.data(), 0, dtype_of<T>, root);
  }
}

TYPED_TEST(Collectives, AllGatherOfUnevenBlocks) {
  using T = TypeParam;
  for (const Index scale : {Index{1}, Index{9000}}) {
    const std::vector<Index> counts = uneven_counts(scale);
    const std::vector<T> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(me())]),
                             make<T>(10 * me() + 1));
    std::vector<T> all(static_cast<std::size_t>(sum(counts)), make<T>(0));
    world()->all_gather(own.data(), all.data(), counts, dtype_of<T>);
    std::size_t at = 0;
    for (int r = 0; r < ranks(); ++r) {
      for (Index i = 0; i < counts[static_cast<std::size_t>(r)]; ++i)
        ASSERT_EQ(number(all[at++]), 10 * r + 1);
    }
  }
}

TYPED_TEST(Collectives, ReduceScatterOfUnevenBlocks) {
  using T = TypeParam;
  const Index p = ranks();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) {
    const std::vector<Index> counts = uneven_counts(5);
    std::vector<T> from;
    for (Index i = 0; i < sum(counts); ++i) from.push_back(make<T>(p * (i % 7) + me()));
    std::vector<T> to(static_cast<std::size_t>(counts[static_cast<std::size_t>(me())]), make<T>(99));
    world()->reduce_scatter(from.data(), to.data(), counts, dtype_of<T>, op);
    const Index begin = std::accumulate(counts.begin(), counts.begin() + me(), Index{0});
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Index base = p * ((begin + static_cast<Index>(i)) % 7);
      double expected = static_cast<double>(p * base + p * (p - 1) / 2);
      if (op == ReduceOp::avg) expected /= static_cast<double>(p);
      if (op == ReduceOp::avg && std::is_integral_v<T>) expected = std::floor(expected);
      if (op == ReduceOp::max) expected = static_cast<double>(base + p - 1);
      if (op == ReduceOp::min) expected = static_cast<double>(base);
      ASSERT_EQ(number(to[i]), expected);
    }
  }
}

TYPED_TEST(Collectives, AllToAllOfUnevenBlocks) {
  using T = TypeParam;
  // Rank s sends (s + 2 r) % 4 elements of value 16 s + r to rank r.
  std::vector<Index> send_counts;
  std::vector<Index> receive_counts;
  std::vector<T> from;
  for (int r = 0; r < ranks(); ++r) {
    send_counts.push_back((me() + 2 * r) % 4);
    receive_counts.push_back((r + 2 * me()) % 4);
    from.insert(from.end(), static_cast<std::size_t>(send_counts.back()), make<T>(16 * me() + r));
  }
  std::vector<T> to(static_cast<std::size_t>(sum(receive_counts)), make<T>(0));
  world()->all_to_all(from.data(), send_counts, to.data(), receive_counts, dtype_of<T>);
  std::size_t at = 0;
  for (int s = 0; s < ranks(); ++s) {
    for (Index i = 0; i < receive_counts[static_cast<std::size_t>(s)]; ++i) {
      ASSERT_EQ(number(to[at++]), 16 * s + me());
    }
  }
}

TEST(Communicator, AllReduceGivesTheSameBitsEverywhere) {
  for (const Index n : {Index{100}, Index{30001}}) {
    std::vector<float> data;
    for (Index i = 0; i < n; ++i)
      data.push_back(std::sin(static_cast<float>(i * (me() + 3))) *
                     std::pow(10.0F, static_cast<float>(me())));
    world()->all_reduce(data.data(), n, DType::f32, ReduceOp::sum);
    std::vector<float> first = data;
    world()->broadcast(first.data(), n, DType::f32, 0);
    EXPECT_EQ(std::memcmp(first.data(), data.data(), first.size() * sizeof(float)), 0);
  }
}

TEST(Communicator, Bfloat16SumsAccumulateInFloat) {
  // 256 + 1 is not a bfloat16, but 256 + 1 + 1 + ... is once enough ones have gathered: they must not be lost
  // one by one.
  std::vector<bfloat16> data(5000, to_bfloat16(me() == 0 ? 256.0F : 1.0F));
  world()->all_reduce(data.data(), 5000, DType::bf16, ReduceOp::sum);
  const float expected = to_float(to_bfloat16(256.0F + static_cast<float>(ranks() - 1)));
  for (const bfloat16& value : data) EXPECT_EQ(to_float(value), expected);
}

TEST(Communicator, SeveralReductionsMayBeUnderWay) {
  std::vector<std::vector<double>> data;
  std::vector<Request> requests;
  for (int k = 0; k < 6; ++k) data.emplace_back(k % 2 ? 5000 : 3, k + me());
  for (std::vector<double>& d : data) {
    requests.push_back(
        world()->start_all_reduce(d.data(), static_cast<Index>(d.size()), DType::f64, ReduceOp::sum));
  }
  for (std::size_t k = requests.size(); k-- > 0;) requests[k].wait();
  for (int k = 0; k < 6; ++k) {
    for (double v : data[static_cast<std::size_t>(k)])
      EXPECT_EQ(v, ranks() * k + ranks() * (ranks() - 1) / 2);
  }
}

TEST(Communicator, MessagesWithTags) {
  const int right = (me() + 1) % ranks();
  const int left = (me() + ranks() - 1) % ranks();
  std::vector<float> received(3, 0);
  float other = 0;
  Request second = world()->start_receive(&other, 1, DType::f32, left, 8);
  Request first = world()->start_receive(received.data(), 3, DType::f32, left, 7);
  const std::vector<float> sent{1, 2, static_cast<float>(me())};
  const float extra = 50.0F + static_cast<float>(me());
  Request a = world()->start_send(sent.data(), 3, DType::f32, right, 7);
  Request b = world()->start_send(&extra, 1, DType::f32, right, 8);
  while (!second.test()) std::this_thread::yield();
  first.wait();
  a.wait();
  b.wait();
  EXPECT_EQ(received, (std::vector<float>{1, 2, static_cast<float>(left)}));
  EXPECT_EQ(other, 50.0F + static_cast<float>(left));
  EXPECT_THROW(world()->send(&extra, 1, DType::f32, ranks(), 0), Error);
  EXPECT_THROW(world()->send(&extra, 1, DType::f32, right, -1), Error);
}

TEST(Communicator, SplitOrdersByKeyAndTextIsBroadcast) {
  const CommPtr reversed = world()->split(me() % 2, -me(), "parity");
  const int members = (ranks() + 1 - me() % 2) / 2;
  EXPECT_EQ(reversed->size(), members);
  EXPECT_EQ(reversed->rank(), members - 1 - me() / 2);
  EXPECT_EQ(reversed->world_rank(reversed->rank()), me());
  EXPECT_EQ(reversed->name(), "parity");
  EXPECT_EQ(reversed->broadcast_text(fmt::format("from {}", me()), members - 1),
            fmt::format("from {}", me() % 2));
  EXPECT_EQ(reversed->broadcast_text(""), "");
  EXPECT_NE(reversed->native_handle(), nullptr);
  EXPECT_EQ(reversed->native_handle(), reversed->native_handle());
}

TEST(Communicator, StatisticsCountEachOperationOnce) {
  const CommPtr own = world()->split(me(), 0, "own");
  CommStats& stats = CommStats::global();
  stats.reset();
  own->barrier();
  own->all_reduce_value(1.0, ReduceOp::sum);
  EXPECT_TRUE(stats.counts().empty());
  if (ranks() == 1) return;
  {
    const CommScope scope("norm");
    const CommScope caused_by_it("redistribute");
    world()->all_reduce_value(1.0, ReduceOp::sum);
    const CommScope inner = CommScope::in_place("halo");
    float value = 0;
    Request receive = world()->start_receive(&value, 1, DType::f32, (me() + ranks() - 1) % ranks(), 1);
    world()->send(&value, 1, DType::f32, (me() + 1) % ranks(), 1);
    receive.wait();
  }
  world()->barrier();
  std::vector<float> all(static_cast<std::size_t>(ranks()));
  const std::vector<Index> counts(all.size(), 1);
  world()->all_gather(all.data(), all.data() + me(), std::vector<Index>(all.size(), 0), DType::f32);
  world()->reduce_scatter(std::vector<float>(all.size()).data(), all.data(), counts, DType::f32,
                          ReduceOp::sum);
  EXPECT_EQ(stats.counts().at({"norm", "all_reduce"}).calls, 1U);
  EXPECT_EQ(stats.counts().at({"norm", "all_reduce"}).bytes, 8U);
  EXPECT_EQ(stats.counts().at({"halo", "send"}).calls, 1U);
  EXPECT_EQ(stats.counts().at({"halo", "send"}).bytes, 4U);
  EXPECT_EQ(stats.counts().at({"", "barrier"}).calls, 1U);
  EXPECT_EQ(stats.total("reduce_scatter").bytes, 4U * static_cast<unsigned>(ranks()));
  EXPECT_EQ(stats.total("all_gather").bytes, 0U);
  EXPECT_EQ(stats.collective_calls(), 4U);
  EXPECT_EQ(CommScope::current(), "");
  EXPECT_NE(stats.report().find("halo"), std::string::npos);
}

TEST(Communicator, ReportOfAllRanks) {
  CommStats& stats = CommStats::global();
  stats.reset();
  {
    const CommScope scope("halo");
    for (int i = 0; i <= me(); ++i) stats.record("send", 1536, 0.25);
  }
  if (me() == 0) stats.record("barrier", 0, 2.0);
  const std::string text = stats.report(*world());
  EXPECT_EQ(text, world()->broadcast_text(text));
  const auto line = [&](std::string_view start) {
    const std::size_t at = text.find(start);
    return at == std::string::npos ? "no line " + std::string(start)
                                   : text.substr(at, text.find('\n', at) - at);
  };
  const int n = ranks();
  // The rank with most: calls, bytes, time; the bytes of all together. Many bytes first.
  const auto kib = [](int calls) { return fmt::format("{:.1f} KiB", 1.5 * calls); };
  const std::string together = n > 1 ? kib(n * (n + 1) / 2) + " " : "";
  const auto squeezed = [](const std::string& s) {
    std::string out;
    for (const char c : s)
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    return out;
  };
  const std::string time = n < 4 ? fmt::format("{} ms", 250 * n) : "1 s";
  EXPECT_EQ(squeezed(line("halo")), fmt::format("halo send {} {} {}{}", n, kib(n), together, time));
  EXPECT_EQ(squeezed(line("(outside")),
            fmt::format("(outside operators) barrier 1 0 B {}2 s", n > 1 ? "0 B " : ""));
  EXPECT_EQ(squeezed(line("total")), fmt::format("total {} {} {}2.25 s", std::max(n, 2), kib(n), together));
  EXPECT_LT(text.find("halo"), text.find("(outside"));
  stats.reset();
  EXPECT_NE(stats.report(*world()).find("none"), std::string::npos);
  EXPECT_TRUE(n == 1 || stats.total("all_gather").calls > 0);  // of the report itself
}

/// The text of the error that `body` throws, which must be one of communication.
std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Timeout, NamesTheRanksThatHaveNotArrived) {
  if (ranks() == 1) return;
  const CommPtr late = world()->split(0, -me(), "late");  // group rank = size - 1 - world rank
  late->barrier();
  late->set_timeout(milliseconds(300));
  constexpr int gave_up = 4;
  float token = 0;
  if (me() == 0) {
    for (int r = 1; r < ranks(); ++r) world()->receive(&token, 1, DType::f32, r, gave_up);
    late->set_timeout(milliseconds(20000));
    late->barrier();  // the others are there already
  } else {
    const std::string text = failure_of([&] { late->barrier(); });
    const std::string missing = fmt::format("not arrived: rank {} (world rank 0)", ranks() - 1);
    EXPECT_NE(text.find("barrier on 'late'"), std::string::npos) << text;
    EXPECT_NE(text.find("sequence number 2"), std::string::npos) << text;
    EXPECT_EQ(text.substr(text.size() - missing.size()), missing) << text;
    world()->send(&token, 1, DType::f32, 0, gave_up);
  }
  world()->barrier();
}

TEST(Timeout, CollectivesThatDifferDoNotTakeEachOthersMessages) {
  if (ranks() == 1) return;
  const CommPtr mixed = world()->split(0, me(), "mixed");
  mixed->set_timeout(milliseconds(200));
  const std::vector<Index> ones(static_cast<std::size_t>(ranks()), 1);
  std::vector<double> from(ones.size(), 1.0), to(ones.size());
  const std::string text = failure_of([&] {
    if (me() == 0) {
      mixed->all_gather(from.data(), to.data(), ones, DType::f64);
    } else {
      mixed->all_to_all(from.data(), ones, to.data(), ones, DType::f64);
    }
  });
  EXPECT_NE(text.find(me() == 0 ? "all_gather on 'mixed'" : "all_to_all on 'mixed'"), std::string::npos)
      << text;
  world()->barrier();
}

TEST(Timeout, OfAMessageNamesItsPeer) {
  const CommPtr quiet = world()->split(0, me(), "quiet");
  quiet->set_timeout(milliseconds(100));
  float value = 0;
  const int from = (me() + 1) % ranks();
  const std::string text = failure_of([&] { quiet->receive(&value, 1, DType::f32, from, 3); });
  EXPECT_NE(text.find(fmt::format("from rank {}, tag 3", from)), std::string::npos) << text;
  world()->barrier();  // nobody waits any more
  quiet->set_timeout(milliseconds(20000));
  quiet->send(&value, 1, DType::f32, (me() + ranks() - 1) % ranks(), 3);  // so that no receive stays open
  world()->barrier();
}

}  // namespace
}  // namespace tessera
