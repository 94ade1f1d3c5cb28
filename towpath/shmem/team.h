// Team: some of the PEs, in an order; what they do together. Collectives are in collectives.h.
//
// A handle is a value: copies mean the same team. A handle of a team that was destroyed, of a split
// that this PE is no member of, or made by default, is of no team: its index and translations are
// -1, and calls with it fail. Destroying the world or the shared team does nothing.
// Thread: asking any; calls that need all members: one of each PE at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <towpath/core/result.h>
#include <towpath/shmem/world.h>

namespace towpath::shmem {

/// Every `stride`-th PE of a team, counted in that team, from `start` on; `size` of them.
struct Strided {
  int start = 0;
  int stride = 1;  ///< may be negative; 0 only with size 1
  int size = 1;
};

struct TeamPair;

class Team {
 public:
  static constexpr std::int32_t kInvalid = -1;
  static constexpr std::int32_t kWorld = 0;
  static constexpr std::int32_t kShared = 1;

  Team() = default;
  /// For Context and the C doors: the team that to_raw() gave the number of, or no team.
  static Team from_raw(std::shared_ptr<World> world, std::int32_t raw);
  /// For PEs that make a team by themselves, as the C doors' do: one of them takes a slot, and each
  /// passes it with the same PEs, in one order. Errors of take_slot: exhausted, peer_lost.
  static Result<std::uint32_t> take_slot(World& world);
  static Team agreed(const std::shared_ptr<World>& world, std::uint32_t slot,
                     std::vector<std::int32_t> pes);
  /// kInvalid for no team. A number of one process.
  std::int32_t raw() const;

  /// This PE's index in the team, or -1.
  int my_pe() const;
  /// -1 for no team.
  int n_pes() const;
  bool is_member() const { return my_pe() >= 0; }
  /// The index in `other` of the PE with index `pe` here, or -1.
  int translate(int pe, const Team& other) const;

  /// Collective over this team; no team on those that are not in it.
  /// Errors, on all: invalid_argument (members that this team does not have, or twice), exhausted
  /// (no team slot is free), not_ready (no team), and gather()'s.
  Result<Team> split_strided(const Strided& which) const;
  /// Rows of `x_range` PEs, and columns of the PEs with the same place in their row.
  /// Collective; errors as above.
  Result<TeamPair> split_2d(int x_range) const;
  /// Collective over this team. Copies of the handle are then of no team. Errors: gather()'s.
  Status destroy() const;

  /// Returns when all members have called it. barrier(): and all puts of theirs are in place.
  Status barrier() const;
  Status sync() const;

  friend bool operator==(const Team& a, const Team& b) { return a.raw() == b.raw(); }

  /// What collectives work on; null for no team.
  TeamView* view() const noexcept;
  /// As view(), with words for no team.
  Result<TeamView*> find() const;
  const std::shared_ptr<World>& world() const noexcept { return world_; }

 private:
  Team(std::shared_ptr<World> world, const TeamView& view);

  std::shared_ptr<World> world_;
  std::uint32_t slot_ = 0;
  std::uint32_t serial_ = 0;
};

struct TeamPair {
  Team x;  ///< the row
  Team y;  ///< the column
};

/// The world and the shared team, on each PE; for Context.
Status make_predefined_teams(World& world);

}  // namespace towpath::shmem
