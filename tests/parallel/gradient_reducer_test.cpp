#include "parallel/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include "tests/parallel/device_vector.hpp"
#include "tests/support/test_main.hpp"

namespace tessera {
namespace {

using testing::DeviceVector;
using testing::world;
using Parameters = std::vector<GradientReducer::Parameter>;

const Parameters& parameters() {
  static const Parameters list{{"a", 10, DType::f32}, {"b", 300, DType::f32},  {"c", 7, DType::bf16},
                               {"d", 0, DType::f32},  {"e", 5000, DType::f64}, {"f", 1, DType::f32}};
  return list;
}

template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

/// Gradient of parameter i on this rank: all elements 4 (i + 1) (rank + 1).
template <typename T>
void write(GradientReducer& reducer, int i, Index n) {
  const std::vector<T> values(static_cast<std::size_t>(n),
                              from_float<T>(static_cast<float>(4 * (i + 1) * (world()->rank() + 1))));
  copy_bytes(reducer.gradient(i), MemorySpace::device, values.data(), MemorySpace::host,
             values.size() * sizeof(T));
}

template <typename T>
void check(GradientReducer& reducer, int i, Index n, double expected) {
  for (const T& v : DeviceVector<T>::read(reducer.gradient(i), static_cast<std::size_t>(n))) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      EXPECT_EQ(to_float(v), expected);
    } else {
      EXPECT_EQ(v, expected);
    }
  }
}

template <typename Body>
void for_each_parameter(const Body& body) {
  for (int i = 0; i < static_cast<int>(parameters().size()); ++i) {
    const GradientReducer::Parameter& p = parameters()[static_cast<std::size_t>(i)];
    if (p.type == DType::f32) body.template operator()<float>(i, p.elements);
    if (p.type == DType::f64) body.template operator()<double>(i, p.elements);
    if (p.type == DType::bf16) body.template operator()<bfloat16>(i, p.elements);
  }
}

TEST(GradientReducer, SumsOverDomainAndAveragesOverDdp) {
  const int p = world()->size();
  const int ddp = p % 2 == 0 ? 2 : 1;
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2000}, std::size_t{1} << 20}) {
    GradientReducer reducer(world(), ddp, parameters(), {limit, limit});
    for (int round = 0; round < 2; ++round) {
      reducer.zero();
      for_each_parameter([&]<typename T>(int i, Index n) { check<T>(reducer, i, n, 0); });
      for_each_parameter([&]<typename T>(int i, Index n) { write<T>(reducer, i, n); });
      // Parameters become ready in another order on every rank; "b" is left to finish().
      for (const int k : {5, 0, 3, 4, 2})
        reducer.mark_ready((k + world()->rank()) % 6 == 1 ? 1 : (k + world()->rank()) % 6);
      reducer.finish();
      for_each_parameter([&]<typename T>(int i, Index n) {
        check<T>(reducer, i, n, 4.0 * (i + 1) * p * (p + 1) / 2 / ddp);
      });
    }
  }
}

TEST(GradientReducer, BucketsFollowTheLimits) {
  const Parameters equal{
      {"a", 256, DType::f32}, {"b", 256, DType::f32}, {"c", 256, DType::f32}, {"d", 256, DType::f32}};
  EXPECT_EQ(GradientReducer(world(), 1, equal, {4096, 4096}).buckets(), 1);
  EXPECT_EQ(GradientReducer(world(), 1, equal, {4096, 1024}).buckets(), 2);
  EXPECT_EQ(GradientReducer(world(), 1, equal, {1, 1}).buckets(), 4);
  EXPECT_EQ(GradientReducer(world(), 1, {}).buckets(), 0);
}

TEST(GradientReducer, SendsABucketAsSoonAsItIsDue) {
  if (world()->size() == 1) return;
  const Parameters equal{{"a", 256, DType::f32}, {"b", 256, DType::f32}, {"c", 256, DType::f32}};
  GradientReducer reducer(world(), 1, equal, {1, 1});
  CommStats::global().reset();
  const auto sent = [] { return CommStats::global().total("all_reduce").calls; };
  reducer.mark_ready(1);  // second in the reverse order
  EXPECT_EQ(sent(), 0U);
  reducer.mark_ready(2);
  EXPECT_EQ(sent(), 2U);
  reducer.finish();
  EXPECT_EQ(sent(), 3U);
}

TEST(GradientReducer, ReadyTwiceIsAnError) {
  GradientReducer reducer(world(), 1, parameters());
  reducer.mark_ready(4);
  try {
    reducer.mark_ready(4);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'e'"), std::string::npos) << error.what();
  }
  reducer.finish();
  EXPECT_THROW(reducer.finish(), Error);
  reducer.zero();
  EXPECT_NO_THROW(reducer.mark_ready(4));
  reducer.finish();
}

TEST(GradientReducer, EveryRankNamesTheParameterThatDiffers) {
  if (world()->size() == 1) return;
  const int last = world()->size() - 1;
  const auto text_of = [](const Parameters& own) {
    try {
      GradientReducer reducer(world(), 1, own);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Parameters own = parameters();
  if (world()->rank() == last) own[1].elements = 301;
  const std::string size = text_of(own);
  EXPECT_NE(size.find(fmt::format("parameter 1 is 'b' (301 elements, f32) on rank {}", last)),
            std::string::npos)
      << size;
  own = parameters();
  if (world()->rank() == last) own.pop_back();
  const std::string missing = text_of(own);
  EXPECT_NE(missing.find(fmt::format("parameter 5 is nothing on rank {}", last)), std::string::npos)
      << missing;
}

}  // namespace
}  // namespace tessera
