// The engine that opens NVSHMEM's library, on ours, which is used instead without a GPU, and on
// fakes that cannot be used.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/shmem/nvshmem/nvshmem.h>

#include "bindings/nvshmem/rendezvous.h"

namespace towpath::shmem {
namespace {

using ::testing::HasSubstr;

const NvshmemOptions kStandIn{.names = {TOWPATH_STAND_IN}, .accept_stand_in = true};

NvshmemOptions fake(int variant) {
  return {.names = {cat(TOWPATH_FAKES "/libfake_nvshmem_", variant, ".so")}};
}

/// Puts to the next PE, and reads what the last one put.
Status put_around(const NvshmemContext& context) {
  TOWPATH_TRY(void* const at, context.allocate(2 * sizeof(int)));
  const int me = context.my_pe(), next = (me + 1) % context.n_pes();
  TOWPATH_TRY(context.put({.target = at, .source = &me, .size_bytes = sizeof me, .pe = next}));
  TOWPATH_TRY(context.put_on_stream(
      {.target = static_cast<int*>(at) + 1, .source = &me, .size_bytes = sizeof me, .pe = next},
      nullptr));
  TOWPATH_TRY(context.quiet());
  TOWPATH_TRY(context.barrier());
  int here[2] = {-1, -1};
  TOWPATH_TRY(context.get({.target = here, .source = at, .size_bytes = sizeof here, .pe = me}));
  const int last = (me + context.n_pes() - 1) % context.n_pes();
  if (here[0] != last || here[1] != last)
    return error(Code::corrupt, cat("PE ", me, " got ", here[0], " and ", here[1]));
  TOWPATH_TRY(context.get_on_stream(
      {.target = here, .source = at, .size_bytes = sizeof here, .pe = me}, nullptr));
  TOWPATH_TRY(context.barrier_on_stream(nullptr));
  return context.free(at);
}

TEST(NvshmemEngineTest, what_is_not_here_is_reported_with_what_would_provide_it) {
  const NvshmemOptions nowhere{.names = {"libnvshmem_host.so.towpath-has-none", "libno.such.so.1"}};
  const auto library = NvshmemLibrary::open(nowhere);
  EXPECT_EQ(library.code(), Code::unsupported);
  EXPECT_THAT(library.status().to_string(), HasSubstr("towpath-has-none"));
  EXPECT_THAT(library.status().to_string(), HasSubstr("libno.such.so.1"));
  const Finding finding = probe_nvshmem(nowhere);
  EXPECT_EQ(finding.verdict, Verdict::no);
  EXPECT_THAT(finding.hint, HasSubstr("nvidia-nvshmem"));
}

TEST(NvshmemEngineTest, host_stands_in_only_when_it_may) {
  const Finding no{.verdict = Verdict::no, .reason = "not here"};
  const Finding yes{.verdict = Verdict::yes};
  EXPECT_EQ(*choose_engine({.engine = Engine::nvshmem}, yes), Engine::nvshmem);
  EXPECT_EQ(*choose_engine({.engine = Engine::nvshmem, .may_fall_back_to_host = true}, no),
            Engine::host);
  EXPECT_EQ(*choose_engine({}, no), Engine::host);
  const auto refused = choose_engine({.engine = Engine::nvshmem}, no);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("not here"));
}

TEST(NvshmemEngineTest, our_own_is_refused_unless_asked_for) {
  const auto refused = NvshmemLibrary::open({.names = {TOWPATH_STAND_IN}});
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("Towpath's own"));
  const auto library = NvshmemLibrary::open(kStandIn);
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  EXPECT_TRUE((*library)->is_stand_in());
  EXPECT_THAT(probe_nvshmem(kStandIn).reason, HasSubstr("host memory"));
}

TEST(NvshmemEngineTest, libraries_that_cannot_be_used_are_reported_apart) {
  EXPECT_THAT(NvshmemLibrary::open(fake(1)).status().message(),
              HasSubstr("has no nvshmemx_hostlib_init_attr, nvshmemx_hostlib_finalize"));
  EXPECT_THAT(NvshmemLibrary::open(fake(2)).status().message(), HasSubstr("NVSHMEM 2.0.0, not 3"));
  const auto library = NvshmemLibrary::open(fake(3));
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  const auto context = NvshmemContext::open(*library);
  EXPECT_EQ(context.code(), Code::unavailable);
  EXPECT_THAT(context.status().message(), HasSubstr("status is 1"));
  EXPECT_EQ((*library)->create_id().code(), Code::unavailable);
}

TEST(NvshmemEngineTest, one_pe_alone) {
  const auto library = NvshmemLibrary::open(kStandIn);
  ASSERT_TRUE(library.ok());
  auto context = NvshmemContext::open(*library);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  EXPECT_EQ(put_around(*context).to_string(), Status().to_string());
  EXPECT_EQ(context->put({.pe = 1}).code(), Code::out_of_range);
  EXPECT_EQ(context->allocate(std::size_t{1} << 50).code(), Code::exhausted);
  EXPECT_EQ(*context->n_pes_of(Team::kWorld), 1);
  EXPECT_EQ(*context->translate(Team::kWorld, 0, Team::kShared), 0);
  EXPECT_TRUE(context->destroy(Team::kWorld).ok());
  EXPECT_EQ(*context->my_pe_in(Team::kWorld), 0);
  EXPECT_FALSE(NvshmemContext::has_atomics());
  EXPECT_TRUE(context->finalize().ok());
  EXPECT_TRUE(context->finalize().ok());
  EXPECT_EQ(context->barrier().code(), Code::not_ready);
}

/// A PE of two, in a process of its own: the exit status.
int be_pe(const NvshmemLibrary::Id& id, int pe) {
  const auto library = NvshmemLibrary::open(kStandIn);
  if (!library.ok()) return 2;
  auto context = NvshmemContext::open(*library, {.id = id, .my_pe = pe, .pes = 2});
  if (!context.ok() || context->my_pe() != pe || !put_around(*context).ok()) return 3;
  const auto odd = context->split_strided(Team::kWorld, {.start = 1, .stride = 1, .size = 1});
  if (!odd.ok() || (*odd >= 0) != (pe == 1) || !context->destroy(*odd).ok()) return 4;
  return context->finalize().ok() ? 0 : 5;
}

TEST(NvshmemEngineTest, two_processes_meet_by_an_identifier) {
  const auto library = NvshmemLibrary::open(kStandIn);
  ASSERT_TRUE(library.ok());
  const auto id = (*library)->create_id();
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  pid_t pes[2];
  for (int pe = 0; pe < 2; ++pe)
    if (pes[pe] = ::fork(); pes[pe] == 0) ::_exit(be_pe(*id, pe));
  for (const pid_t pe : pes) {
    int status = -1;
    ASSERT_EQ(::waitpid(pe, &status, 0), pe);
    EXPECT_EQ(status, 0);
  }
}

TEST(NvshmemTeamsTest, a_team_is_made_only_where_all_take_it_for_one_of_so_many) {
  using nvshmem::member_in, nvshmem::noted;
  const auto row = [](std::vector<std::uint64_t> places) {
    return nvshmem::are_of_one_team(places);
  };
  EXPECT_TRUE(row({noted(4, 2), noted(0, 2)}));
  EXPECT_EQ(member_in(noted(4, 2)), 5U);
  EXPECT_EQ(member_in(noted(0, 2)), 1U);
  EXPECT_FALSE(row({noted(4, 2), noted(0, 3)})) << "one waits for a third";
  EXPECT_FALSE(row({noted(4, 2), 0, noted(0, 3)})) << "a place is empty: that is no PE";
  EXPECT_FALSE(row({noted(4, 2), noted(1, 2), noted(0, 2)})) << "they are more";
}

}  // namespace
}  // namespace towpath::shmem
