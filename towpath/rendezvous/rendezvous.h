// Rendezvous: how agents learn of each other's metadata.
//
// Metadata is opaque bytes under a name; a name is any bytes too. An agent has one full metadata,
// and as many partial ones, under labels, as it likes. Nothing here blocks and nothing is called
// back from where it was asked: answers and changes are delivered by progress(), and wait_fd()
// reports when there are some. fetch_until.h has the one helper that waits.
//
// It does not judge metadata: whether one is newer, whole or true is for the agent to say.
// Invariants: each fetch is answered exactly once, unless it is cancelled or the rendezvous dies;
// with a deadline it is answered by then.
// Thread: one at a time. Callbacks run inside progress(), and may call everything but progress().
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/run/deadline.h>

namespace towpath::rendezvous {

inline constexpr std::size_t kMaxLabel = 256;

/// Under which metadata is known: its agent and, for a partial metadata, a label.
struct MetadataName {
  std::string agent;  ///< any bytes, 1 to kMaxAgentName of them
  std::string label;  ///< any bytes, up to kMaxLabel; none: the agent's full metadata

  MetadataName() = default;
  template <std::convertible_to<std::string_view> Text>
  MetadataName(const Text& agent_name, std::string_view card_label = {})  // NOLINT: "a" is a name
      : agent(std::string_view(agent_name)), label(card_label) {}

  friend auto operator<=>(const MetadataName&, const MetadataName&) = default;
};

/// "'decode-0'", "'decode-0', part 'layers'".
std::string to_string(const MetadataName& name);

/// Whether withdrawing `name` withdraws `metadata`: without a label it means all metadata of the
/// agent.
inline bool covers(const MetadataName& name, const MetadataName& metadata) noexcept {
  return name.agent == metadata.agent && (name.label.empty() || name.label == metadata.label);
}

/// Errors: invalid_argument (an empty or too long name, a too long label).
Status check_name(const MetadataName& name);

/// Names a fetch that was asked; never 0, never used twice.
using FetchId = std::uint64_t;

/// The metadata. Errors: not_found (nobody has published the name), unavailable (the place to ask
/// does not answer now), timed_out, denied (it is not who it should be), corrupt (the answer is).
using FetchDone = std::function<void(Result<Bytes> metadata)>;

/// Metadata that was published, again or for the first time, or withdrawn.
struct Change {
  MetadataName name;
  std::optional<Bytes> metadata;  ///< nothing: withdrawn
};
using ChangeSeen = std::function<void(const Change&)>;

/// How what was published and withdrawn from here stands with the others.
struct Standing {
  std::size_t pending = 0;  ///< metadata, and withdrawals, that have not arrived yet
  Status trouble;           ///< why, if it is more than the way there; ok when all is well
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  /// Makes `metadata` known under `name`, in place of what was. The bytes are copied.
  /// Errors: invalid_argument (an empty or too long name), out_of_range (the metadata is too long).
  /// ok means accepted: where others keep the metadata, it is on its way (standing() reports), and
  /// is brought again when they come back without it.
  virtual Status publish(const MetadataName& name, ConstByteSpan metadata) = 0;
  /// Without a label: all metadata of the agent. Errors: not_found (not published from here).
  virtual Status withdraw(const MetadataName& name) = 0;
  virtual Standing standing() const { return {}; }

  /// Asks for the metadata of `name`; `done` hears the answer. Errors: invalid_argument as above,
  /// exhausted (too many fetches at a time).
  virtual Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline,
                                FetchDone done) = 0;
  /// `done` is not called any more. An unknown or answered fetch is no error.
  virtual void cancel(FetchId fetch) = 0;

  /// `seen` hears of changes that others make from now on; replaces the one before. Several changes
  /// of one name between two calls of progress() may be reported as the last one.
  virtual void watch(ChangeSeen seen) = 0;

  /// Delivers what has come. Returns how many callbacks were called.
  virtual std::size_t progress() = 0;
  /// Readable when progress() has something to do. Borrowed, for a poller.
  virtual int wait_fd() const noexcept = 0;
};

/// Of every metadata, unless an implementation says less.
inline constexpr std::size_t kMaxMetadataBytes = std::size_t{8} << 20U;
Status check_metadata(ConstByteSpan metadata, std::size_t limit_bytes = kMaxMetadataBytes);
/// The trouble of a publisher whose name another has published since.
Status taken_by_another(const MetadataName& name);

}  // namespace towpath::rendezvous
