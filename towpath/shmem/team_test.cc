// Teams: golden splits, translation, handles.
#include <climits>

#include <gtest/gtest.h>

#include <towpath/shmem/job.h>
#include <towpath/shmem/team.h>
#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem {
namespace {

class TeamTest : public testing::EngineTest {};
TOWPATH_ON_EVERY_ENGINE(TeamTest);

std::vector<int> members(const Team& team, const Team& world) {
  std::vector<int> pes;
  for (int pe = 0; pe < team.n_pes(); ++pe) pes.push_back(team.translate(pe, world));
  return pes;
}

TEST_P(TeamTest, predefined_teams_have_everyone_and_are_never_destroyed) {
  as_threads({.pes = 2}, [](Context& context) {
    for (const Team& team : {context.world(), context.shared()}) {
      const int hosts = team == context.world() || !GetParam() ? 1 : 2;
      EXPECT_EQ(team.my_pe(), context.my_pe() / hosts);
      EXPECT_EQ(team.n_pes(), 2 / hosts) << "the shared team is that of one host";
      EXPECT_TRUE(team.destroy().ok());
      EXPECT_TRUE(team.barrier().ok());
    }
    EXPECT_EQ(context.world().raw(), 0);
    EXPECT_EQ(context.shared().raw(), 1);
    EXPECT_EQ(Team().raw(), -1);
    EXPECT_NE(context.world(), context.shared());
  });
}

TEST_P(TeamTest, barrier_of_one_host_has_puts_to_other_hosts_in_place) {
  // More than leaves at once: the last message is read, by a question over another connection.
  constexpr std::uint64_t kCount = 1 << 20;
  as_threads({.pes = 3, .heap_bytes = 2 * kCount * sizeof(std::uint64_t)}, [](Context& context) {
    auto buffer = context.allocate_zeroed<std::uint64_t>(kCount);
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    auto pair = context.world().split_strided({.start = 0, .stride = 2, .size = 2});
    ASSERT_TRUE(pair.ok()) << pair.status().to_string();
    for (std::uint64_t round = 1; pair->is_member() && round <= 20; ++round) {
      const std::vector<std::uint64_t> values(kCount, round);
      if (context.my_pe() == 0) {
        EXPECT_TRUE(buffer->put({.pe = 1}, values).ok());
      }
      EXPECT_TRUE(pair->barrier().ok());
      if (context.my_pe() == 2) {
        EXPECT_EQ(*buffer->g({.pe = 1, .index = kCount - 1}), round);
      }
      EXPECT_TRUE(pair->barrier().ok());
    }
    (void)context.barrier();
  });
}

TEST_P(TeamTest, strides_count_in_the_parent_team) {
  as_threads({.pes = 5}, [](Context& context) {
    const Team world = context.world();
    auto even = world.split_strided({.start = 0, .stride = 2, .size = 3});
    ASSERT_TRUE(even.ok()) << even.status().to_string();
    if (context.my_pe() % 2 == 1) {
      EXPECT_FALSE(even->is_member());
      EXPECT_EQ(even->my_pe(), -1);
      EXPECT_EQ(even->translate(0, world), -1);
      EXPECT_EQ(even->barrier().code(), Code::not_ready);
      return (void)context.barrier();
    }
    EXPECT_EQ(members(*even, world), (std::vector<int>{0, 2, 4}));
    EXPECT_EQ(even->my_pe(), context.my_pe() / 2);
    EXPECT_EQ(world.translate(1, *even), -1);
    EXPECT_EQ(world.translate(4, *even), 2);
    auto outer = even->split_strided({.start = 0, .stride = 2, .size = 2});
    ASSERT_TRUE(outer.ok());
    EXPECT_EQ(outer->is_member(), context.my_pe() != 2);
    if (outer->is_member()) {
      EXPECT_EQ(members(*outer, world), (std::vector<int>{0, 4}));
    }
    auto reversed = even->split_strided({.start = 2, .stride = -1, .size = 3});
    EXPECT_EQ(members(*reversed, world), (std::vector<int>{4, 2, 0}));
    EXPECT_TRUE(reversed->barrier().ok());
    (void)context.barrier();
  });
}

TEST_P(TeamTest, rows_and_columns_of_five) {
  as_threads({.pes = 5}, [](Context& context) {
    auto pair = context.world().split_2d(2);
    ASSERT_TRUE(pair.ok()) << pair.status().to_string();
    const std::vector<std::vector<int>> rows = {{0, 1}, {2, 3}, {4}}, columns = {{0, 2, 4}, {1, 3}};
    const auto self = static_cast<std::size_t>(context.my_pe());
    EXPECT_EQ(members(pair->x, context.world()), rows[self / 2]);
    EXPECT_EQ(members(pair->y, context.world()), columns[self % 2]);
    EXPECT_TRUE(pair->x.barrier().ok() && pair->y.barrier().ok());
    EXPECT_EQ(context.world().split_2d(0).code(), Code::invalid_argument);
    EXPECT_TRUE(context.world().split_2d(9).ok());
    (void)context.barrier();
  });
}

TEST_P(TeamTest, wrong_splits_are_errors_on_all) {
  as_threads({.pes = 3}, [](Context& context) {
    const Team world = context.world();
    for (const Strided& wrong : {Strided{0, 2, 3}, Strided{-1, 1, 1}, Strided{0, 0, 2},
                                 Strided{0, 1, 0}, Strided{1, -1, 3}, Strided{0, 1, INT_MIN}})
      EXPECT_EQ(world.split_strided(wrong).code(), Code::invalid_argument);
    const Status status =
        world.split_strided({.start = 0, .size = context.my_pe() == 0 ? 2 : 1}).status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("size 2)"), std::string_view::npos) << status.to_string();
    EXPECT_TRUE(world.barrier().ok());
  });
}

TEST_P(TeamTest, destroyed_teams_are_stale_and_their_slots_come_back) {
  as_threads({.pes = 2}, [](Context& context) {
    Team last;
    for (int round = 0; round < 1000; ++round) {
      auto team = context.world().split_strided({.start = 0, .stride = 1, .size = 2});
      ASSERT_TRUE(team.ok()) << round << team.status().to_string();
      ASSERT_FALSE(last.is_member());
      ASSERT_EQ(context.team_from_raw(team->raw()), *team);
      ASSERT_GE(team->raw(), 6);
      last = *team;
      const std::int32_t raw = team->raw();
      ASSERT_TRUE(team->destroy().ok());
      ASSERT_EQ(context.team_from_raw(raw).raw(), Team::kInvalid);
      ASSERT_EQ(team->destroy().code(), Code::not_ready);
    }
  });
}

TEST_P(TeamTest, too_many_teams_are_an_error_on_all) {
  as_threads({.pes = 2}, [](Context& context) {
    std::vector<Team> teams;
    Status status;
    while (status.ok()) {
      auto team = context.world().split_strided({.start = 1, .size = 1});
      status = team.status();
      if (team.ok()) teams.push_back(*team);
    }
    EXPECT_EQ(status.code(), Code::exhausted);
    EXPECT_EQ(teams.size(), kTeamSlots - 6);
    EXPECT_GE(teams.size(), 1000u) << "programs give each row and column of a grid its own";
    if (context.my_pe() == 1) {
      EXPECT_EQ(context.team_from_raw(teams.back().raw()), teams.back());
      EXPECT_TRUE(teams.back().destroy().ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_TRUE(context.world().split_strided({.start = 1, .size = 1}).ok());
    (void)context.barrier();
  });
}

TEST_P(TeamTest, split_for_which_pe_0_cannot_be_asked_says_so_on_all) {
  as_threads({.pes = 3}, [](Context& context) {
    auto pair = context.world().split_strided({.start = 1, .size = 2});
    ASSERT_TRUE(pair.ok()) << pair.status().to_string();
    if (context.my_pe() == 0) return;
    EXPECT_EQ(context.barrier().code(), Code::peer_lost);
    const Status split = pair->split_strided({.start = 0, .size = 2}).status();
    EXPECT_EQ(split.code(), GetParam() ? Code::peer_lost : Code::ok) << split.to_string();
    EXPECT_TRUE(pair->barrier().ok());
  });
}

TEST_P(TeamTest, team_without_the_lost_pe_goes_on) {
  as_threads({.pes = 3}, [](Context& context) {
    auto pair = context.world().split_strided({.start = 0, .stride = 1, .size = 2});
    auto flag = context.allocate_zeroed<std::uint64_t>(1);
    if (context.my_pe() == 2) return;
    EXPECT_EQ(context.barrier().code(), Code::peer_lost);
    EXPECT_EQ(flag->wait_until(0, {Compare::equal, 1}).code(), Code::peer_lost);
    EXPECT_TRUE(pair->barrier().ok());
    context.forget_losses();
    if (context.my_pe() == 0) {
      EXPECT_TRUE(flag->set({.pe = 1}, 1).ok());
    }
    if (context.my_pe() == 1) {
      EXPECT_TRUE(flag->wait_until(0, {Compare::equal, 1}).ok());
    }
    EXPECT_TRUE(pair->barrier().ok());
  });
}

}  // namespace
}  // namespace towpath::shmem
