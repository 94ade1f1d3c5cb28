// Contexts, allocation, and what happens when PEs do not agree.
#include <algorithm>
#include <array>
#include <cstring>
#include <latch>

#include <gtest/gtest.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/shmem/context.h>
#include <towpath/shmem/testing/pes.h>
#include <towpath/shmem/world_parts.h>
#include <towpath/sys/clock.h>

namespace towpath::shmem {
namespace {

using testing::as_threads;
using testing::bootstrap_for;

TEST(ContextTest, alone_needs_nothing) {
  auto context = Context::open();
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  EXPECT_EQ(context->my_pe(), 0);
  EXPECT_EQ(context->n_pes(), 1);
  auto numbers = context->allocate_zeroed<int>(8);
  ASSERT_TRUE(numbers.ok());
  EXPECT_TRUE(numbers->p({.pe = 0, .index = 3}, 7).ok());
  EXPECT_EQ(*numbers->g({.pe = 0, .index = 3}), 7);
  EXPECT_TRUE(context->barrier().ok());
  EXPECT_TRUE(context->finalize().ok());
  EXPECT_TRUE(context->finalize().ok()) << "it is idempotent";
  EXPECT_EQ(context->barrier().code(), Code::not_ready);
  EXPECT_EQ(numbers->p({}, 1).code(), Code::not_ready);
  EXPECT_EQ(numbers->local()[3], 7) << "the memory lives as long as its buffer";
}

TEST(ContextTest, what_was_moved_from_refuses_every_call) {
  const sys::SystemClock clock;
  device::HostDriver driver(clock);
  auto stream = *(*driver.open(0))->create_stream();
  auto context = Context::open();
  ASSERT_TRUE(context.ok());
  const Context taken = *std::move(context);
  EXPECT_EQ(context->barrier().code(), Code::not_ready);
  EXPECT_EQ(context->allocate<int>(1).code(), Code::not_ready);
  EXPECT_EQ(context->barrier_on_stream(*stream).code(), Code::not_ready);
  EXPECT_EQ(context->quiet_on_stream(*stream).code(), Code::not_ready);
  EXPECT_EQ(context->stream_failure().code(), Code::not_ready);
  EXPECT_TRUE(stream->synchronize().ok());
}

TEST(ContextTest, own_heap_lies_at_the_symmetric_base) {
  auto context = Context::open();
  ASSERT_TRUE(context.ok());
  EXPECT_TRUE(context->has_same_addresses());
  auto bytes = context->allocate<char>(1);
  EXPECT_EQ(address_of(bytes->local().data()), kSymmetricBase + bytes->offset());
}

TEST(ContextTest, versions_need_no_context) {
  EXPECT_EQ(specification().major, 1);
  EXPECT_EQ(specification().minor, 6) << "as shmem.h has it";
  EXPECT_GE(version().minor, 1);
}

TEST(ContextTest, wrong_pe_is_refused) {
  auto files = create_job({.pes = 2});
  EXPECT_EQ(Context::open(bootstrap_for(*files, 2)).code(), Code::invalid_argument);
  EXPECT_EQ(Context::open({.my_pe = 0, .pes = 2}).code(), Code::invalid_argument);
  EXPECT_EQ(create_job({.pes = 0}).code(), Code::invalid_argument);
}

TEST(ContextTest, missing_pe_is_named) {
  auto files = create_job({.pes = 3});
  auto context = Context::open(bootstrap_for(*files, 0),
                               {.timeouts = {.to_start = std::chrono::milliseconds(10)}});
  EXPECT_EQ(context.code(), Code::timed_out);
  EXPECT_NE(context.status().message().find("PE 2 (has not begun)"), std::string_view::npos)
      << context.status().to_string();
}

TEST(ContextTest, pe_begins_once) {
  auto files = create_job({.pes = 1});
  auto first = Context::open(bootstrap_for(*files, 0));
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(Context::open(bootstrap_for(*files, 0)).code(), Code::already_exists);
}

TEST(ContextTest, unauthenticated_segment_is_refused) {
  auto files = create_job({.pes = 1});
  std::swap(files->control, files->heaps[0]);
  EXPECT_EQ(Context::open({.files = std::move(*files)}).code(), Code::corrupt);
}

TEST(ContextTest, sizes_that_differ_are_an_error_on_all) {
  as_threads({.pes = 3}, [](Context& context) {
    const std::uint64_t count = context.my_pe() == 2 ? 8192 : 4096;
    auto buffer = context.allocate<char>(count);
    EXPECT_EQ(buffer.code(), Code::invalid_argument);
    EXPECT_EQ(buffer.status().message(),
              "PE 0 calls allocate(bytes 4096, alignment 64, zeroed 0), "
              "PE 2 calls allocate(bytes 8192, alignment 64, zeroed 0)");
    auto same = context.allocate<char>(64);  // and all go on
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(same->offset(), 0u);
  });
}

TEST(ContextTest, calls_that_differ_are_an_error_on_all) {
  as_threads({.pes = 2}, [](Context& context) {
    const Status status =
        context.my_pe() == 0 ? context.barrier() : context.allocate<int>(1).status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("PE 0 calls barrier, PE 1 calls allocate"),
              std::string_view::npos)
        << status.to_string();
    EXPECT_TRUE(context.barrier().ok());
  });
}

/// 4,294,967,296 of them take a quarter of an hour.
TEST(ContextTest, the_count_of_barriers_may_wrap) {
  auto context = Context::open();
  ASSERT_TRUE(context.ok());
  auto* const rounds = reinterpret_cast<std::uint32_t*>(
      reinterpret_cast<std::byte*>(&context->underneath()->job().team(Team::kWorld)) +
      8);  // docs/formats/shmem_job.md
  ASSERT_TRUE(context->barrier().ok());
  ASSERT_EQ(*rounds, 1u);
  *rounds = ~std::uint32_t{0} - 1;
  for (int round = 0; round < 4; ++round) EXPECT_TRUE(context->barrier().ok()) << round;
  EXPECT_EQ(*rounds, 2u);
}

TEST(ContextTest, size_that_overflows_is_refused) {
  auto context = Context::open();
  EXPECT_EQ(context->allocate<double>(~0ULL / 4).code(), Code::out_of_range);
}

TEST(ContextTest, full_heap_says_its_figures) {
  as_threads({.pes = 2, .heap_bytes = 1 << 20}, [](Context& context) {
    auto buffer = context.allocate<char>(2 << 20);
    EXPECT_EQ(buffer.code(), Code::exhausted);
    EXPECT_NE(buffer.status().message().find("1048576 of 1048576 bytes are free"),
              std::string_view::npos);
    EXPECT_TRUE(context.allocate<char>(1 << 20).ok());
  });
}

TEST(ContextTest, empty_buffer_is_legal) {
  as_threads({.pes = 2}, [](Context& context) {
    auto buffer = context.allocate<int>(0);
    ASSERT_TRUE(buffer.ok());
    EXPECT_TRUE(buffer->empty());
    EXPECT_TRUE(buffer->put({.pe = 1}, {}).ok());
    EXPECT_EQ(buffer->p({.pe = 1}, 1).code(), Code::out_of_range);
    EXPECT_EQ(buffer->region().code(), Code::invalid_argument);
  });
}

TEST(ContextTest, buffers_are_reclaimed_once_all_let_go) {
  as_threads({.pes = 2, .heap_bytes = 1 << 20}, [](Context& context) {
    auto large = context.allocate<char>(600 << 10);
    ASSERT_TRUE(large.ok());
    SymmetricBuffer<char> kept;
    if (context.my_pe() == 0) kept = *std::move(large);
    large = SymmetricBuffer<char>();
    EXPECT_EQ(context.allocate<char>(600 << 10).code(), Code::exhausted) << "PE 0 has it still";
    kept = {};
    EXPECT_TRUE(context.allocate<char>(600 << 10).ok());
  });
}

TEST(ContextTest, freed_buffers_can_be_had_again_at_once) {
  as_threads({.pes = 2, .heap_bytes = 1 << 20}, [](Context& context) {
    for (int round = 0; round < 100; ++round) {
      auto buffer = context.allocate<char>(700 << 10);
      ASSERT_TRUE(buffer.ok()) << round << buffer.status().to_string();
      ASSERT_TRUE(context.free(*std::move(buffer)).ok());
    }
    EXPECT_EQ(context.free_bytes(), 1u << 20U);
  });
}

TEST(ContextTest, zeroed_memory_is_zero_when_it_was_used_before) {
  as_threads({.pes = 2}, [](Context& context) {
    auto first = context.allocate<char>(1000);
    std::memset(first->local().data(), 0x5a, 1000);
    ASSERT_TRUE(context.free(*std::move(first)).ok());
    auto second = context.allocate_zeroed<char>(1000);
    std::vector<char> theirs(1000, 1);
    ASSERT_TRUE(second->get(theirs, {.pe = 1 - context.my_pe()}).ok());
    EXPECT_EQ(theirs, std::vector<char>(1000, 0));
    EXPECT_TRUE(context.barrier().ok());
  });
}

TEST(ContextTest, alignment_is_kept) {
  auto context = Context::open();
  auto odd = context->allocate<char>(1);
  for (const std::uint64_t alignment : {64, 256, 4096, 8192, 2 << 20}) {
    auto buffer = context->allocate<char>(1, {.alignment = alignment});
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    EXPECT_EQ(address_of(buffer->local().data()) % alignment, 0u);
  }
  EXPECT_EQ(context->allocate<char>(1, {.alignment = 48}).code(), Code::invalid_argument);
}

TEST(ContextTest, elements_are_aligned_as_their_type_is) {
  struct alignas(512) Page {
    std::array<char, 512> bytes;
  };
  auto context = Context::open();
  auto odd = context->allocate<char>(1);
  for (const std::uint64_t alignment : {8, 64, 1024}) {
    auto pages = context->allocate<Page>(2, {.alignment = alignment});
    ASSERT_TRUE(pages.ok()) << pages.status().to_string();
    EXPECT_EQ(address_of(&pages->local()[1]) % 512, 0u);
    EXPECT_EQ(address_of(pages->local().data()) % alignment, 0u);
  }
  for (const std::uint64_t wrong : {0, 48, 768})
    EXPECT_EQ(context->allocate<Page>(1, {.alignment = wrong}).code(), Code::invalid_argument);
}

/// PEs in threads have their heaps wherever there was room.
TEST(ContextTest, alignment_that_one_heap_does_not_have_is_refused_on_all) {
  as_threads({.pes = 3}, [](Context& context) {
    constexpr std::uint64_t kMore = std::uint64_t{1} << 46U;
    const auto refused = context.allocate<char>(1, {.alignment = kMore});
    EXPECT_EQ(refused.code(), Code::invalid_argument) << refused.status().to_string();
    EXPECT_NE(refused.status().to_string().find("the heap of PE 0 lies at 0x"), std::string::npos);
    EXPECT_TRUE(context.allocate<char>(1, {.alignment = 4096}).ok()) << "the next one is in step";
  });
}

TEST(ContextTest, pe_that_leaves_ends_the_waits_of_others) {
  as_threads({.pes = 3}, [](Context& context) {
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 1) return;
    const Status status = context.barrier();
    EXPECT_EQ(status.code(), Code::peer_lost);
    EXPECT_NE(status.to_string().find("PE 1 (process"), std::string::npos) << status.to_string();
    EXPECT_NE(status.to_string().find("left without finalizing"), std::string::npos);
    EXPECT_EQ(context.barrier().code(), Code::peer_lost) << "for good";
    EXPECT_TRUE(std::ranges::count(context.losses(), 1));
  });
}

TEST(ContextTest, impatient_wait_says_where_the_others_are) {
  std::latch reported(1);
  as_threads({.pes = 2, .context = {.timeouts = {.to_wait = std::chrono::milliseconds(20)}}},
             [&](Context& context) {
               if (context.my_pe() == 1)
                 return reported.wait();  // no PE waits for the other in between
               const Status status = context.barrier();
               EXPECT_EQ(status.code(), Code::timed_out);
               EXPECT_NE(status.to_string().find("PE 1 ("), std::string::npos);
               reported.count_down();
             });
}

TEST(ContextTest, buffer_is_a_region_that_an_agent_can_register) {
  auto context = Context::open();
  auto odd = context->allocate<char>(100);
  auto buffer = context->allocate<std::uint64_t>(512);
  auto region = buffer->region();
  ASSERT_TRUE(region.ok());
  const RegionDescriptor self = (*region)->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::system);
  EXPECT_EQ(self.address, address_of(buffer->local().data()));
  EXPECT_EQ(self.length, 4096u);
  EXPECT_EQ(self.fd_offset, buffer->offset());

  memory::testing::EventLog log;
  memory::testing::RecordingRegistrar registrar(log, {});
  auto registration = registrar.register_region(*region);
  EXPECT_TRUE(registration.ok());
  const std::uint64_t before = context->free_bytes();
  *buffer = {};
  *region = nullptr;
  (void)context->allocate<char>(0);
  EXPECT_EQ(context->free_bytes(), before) << "the registration keeps the bytes";
  *registration = {};
  (void)context->allocate<char>(0);
  EXPECT_EQ(context->free_bytes(), before + 4096);
}

}  // namespace
}  // namespace towpath::shmem
