#include <gtest/gtest.h>

#include <towpath/blockcopy/copy_times.h>

namespace towpath::blockcopy {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kBoundBytes = 4096, kCopyBytes = 1 << 20;

PieceMover mover_of(const CopyTimes& times, std::uint64_t piece_bytes,
                    std::uint64_t bytes = kCopyBytes) {
  return times.choose(RouteEnd::device, RouteEnd::host, bytes, piece_bytes).mover;
}

/// A copy that took so long.
PieceMover copy_once(CopyTimes& times, std::uint64_t piece_bytes, Duration by_kernel,
                     Duration by_engine) {
  const CopyTrial trial = times.choose(RouteEnd::device, RouteEnd::host, kCopyBytes, piece_bytes);
  times.note(trial, trial.mover == PieceMover::kernel ? by_kernel : by_engine);
  return trial.mover;
}

TEST(CopyTimesTest, both_are_tried_and_then_the_faster_is_taken) {
  CopyTimes times(kBoundBytes, 2);
  for (const PieceMover mover : {PieceMover::kernel, PieceMover::kernel, PieceMover::engine,
                                 PieceMover::engine, PieceMover::engine})
    EXPECT_EQ(copy_once(times, 1024, milliseconds(3), milliseconds(2)), mover);
  for (const PieceMover mover : {PieceMover::engine, PieceMover::engine, PieceMover::kernel,
                                 PieceMover::kernel, PieceMover::kernel})
    EXPECT_EQ(copy_once(times, 8192, milliseconds(3), milliseconds(4)), mover);
  EXPECT_EQ(mover_of(times, 1024), PieceMover::engine);
  EXPECT_EQ(mover_of(times, 1500), PieceMover::engine) << "of the same class";
  EXPECT_EQ(mover_of(times, 2048), PieceMover::kernel) << "of another";
  EXPECT_EQ(mover_of(times, 1024, 2 * kCopyBytes), PieceMover::kernel) << "of another";
}

TEST(CopyTimesTest, far_from_the_bound_or_without_trials_the_bound_decides) {
  CopyTimes times(kBoundBytes, 1);
  CopyTimes none(kBoundBytes, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(copy_once(times, 128, milliseconds(9), milliseconds(1)), PieceMover::kernel);
    EXPECT_EQ(copy_once(times, 65536, milliseconds(1), milliseconds(9)), PieceMover::engine);
    EXPECT_EQ(copy_once(none, 1024, milliseconds(9), milliseconds(1)), PieceMover::kernel);
  }
}

TEST(CopyTimesTest, times_of_a_class_are_those_of_as_many_bytes) {
  CopyTimes times(kBoundBytes, 1);
  const auto note = [&](PieceMover mover, std::uint64_t bytes, Duration took) {
    CopyTrial trial = times.choose(RouteEnd::device, RouteEnd::host, bytes, 1024);
    EXPECT_EQ(trial.mover, mover);
    times.note(trial, took);
  };
  note(PieceMover::kernel, kCopyBytes + kCopyBytes / 2, milliseconds(15));
  note(PieceMover::engine, kCopyBytes, milliseconds(11));
  EXPECT_EQ(mover_of(times, 1024), PieceMover::kernel);
}

TEST(CopyTimesTest, what_failed_is_taken_only_when_there_is_no_other) {
  CopyTimes times(kBoundBytes, 1);
  times.note(times.choose(RouteEnd::device, RouteEnd::host, kCopyBytes, 1024), std::nullopt);
  times.note(times.choose(RouteEnd::device, RouteEnd::host, kCopyBytes, 1024), milliseconds(90));
  EXPECT_EQ(mover_of(times, 1024), PieceMover::engine);
}

}  // namespace
}  // namespace towpath::blockcopy
