#include "bench/fio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/tiers/disk_tier.h>

namespace towpath::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FioTest, it_syncs_after_as_many_bytes_as_a_disk_tier) {
  const auto of = [](std::uint64_t block_bytes, std::uint64_t sync_bytes) {
    return fio_command(
        {"/f", 64 * kMiB},
        {.op = TransferOp::write, .block_bytes = block_bytes, .sync_bytes = sync_bytes});
  };
  constexpr std::uint64_t kTiers = kv::DiskTier::kSyncBytes;
  EXPECT_THAT(of(64 * kKiB, kTiers) + " ", HasSubstr(" --fdatasync=256 "));
  EXPECT_THAT(of(kMiB, kTiers) + " ", HasSubstr(" --fdatasync=16 "));
  EXPECT_THAT(of(64 * kMiB, kTiers) + " ", HasSubstr(" --fdatasync=1 ")) << "0 would be none";
  EXPECT_THAT(of(kMiB, 0), Not(HasSubstr("--fdatasync")));
}

TEST(FioTest, past_the_page_cache_it_registers_what_ours_does) {
  const auto of = [](bool direct, bool registered) {
    return fio_command({"/f", kMiB}, {.direct = direct, .registered = registered});
  };
  EXPECT_THAT(fio_command({"/f", kMiB}, {.direct = true}), HasSubstr("--fixedbufs"));
  EXPECT_THAT(of(true, true), HasSubstr(" --fixedbufs --registerfiles"));
  EXPECT_THAT(of(true, false), Not(HasSubstr("--fixedbufs")));
  EXPECT_THAT(of(false, true), Not(HasSubstr("--fixedbufs"))) << "ours does not either";
}

}  // namespace
}  // namespace towpath::bench
