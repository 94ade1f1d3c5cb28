// Candidate: a backend as the conformance suite sees it: how to make it, and what it claims.
//
// An executable of tests/conformance names its candidates (`candidates()`) and links the cases;
// that is all there is to do for a new backend.
// Thread: immutable.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <towpath/backend/registry.h>

namespace towpath::backend::conformance {

/// Where a test's bytes lie.
enum class Store {
  system,  ///< ordinary memory of one process
  shared,  ///< system memory in a memfd, which another process may map
  disk,    ///< a file
  block,   ///< a raw device, played by a memfd whose path is the device's
  object,  ///< an object of the candidate's store
  device,  ///< memory of the host device, which is no GPU
};

std::string_view name_of(Store store) noexcept;

/// The store of a candidate whose far memory are objects, as an unauthenticated connection to the
/// backend sees it.
class TestObjects {
 public:
  virtual ~TestObjects() = default;
  /// A key that no object has.
  virtual std::string new_key() = 0;
  virtual Status put(const std::string& key, ConstByteSpan bytes) = 0;
  virtual Result<Bytes> get(const std::string& key) = 0;
};

/// A way that bytes go: from and to this side's memory, to and from that of the other agent, or of
/// the agent itself.
struct Pairing {
  Store near = Store::system;
  Store far = Store::system;
  bool to_self = false;
};

/// "system_shared_peer".
std::string to_string(const Pairing& pairing);

struct BackendUse {
  std::string type;
  Params params;
};

struct Candidate {
  std::string name;
  std::function<Registry()> make_registry;
  std::vector<BackendUse> backends;                ///< added to each agent, in this order
  std::vector<Pairing> pairings;                   ///< what it claims; each is held to every case
  std::shared_ptr<TestObjects> objects = nullptr;  ///< where there is a pairing with them
  /// How many bytes may land late at a receiver that stood still in the midst of them; the table of
  /// ARCHITECTURE.md says why.
  std::uint64_t late_bytes_where_still = 0;
  std::string unavailable;   ///< why this machine cannot run it (not_here()); empty: it can
  std::string no_processes;  ///< why no peer can live in another process; empty: one can
  std::string no_messages;   ///< why it carries no notifications; empty: it does
};

/// Of what this machine lacks, the reason of a skip; empty: none. It begins so that `./dev test`
/// knows it from what a backend is not meant to do, and names it.
inline std::string not_here(const std::string& why) {
  return why.empty() ? std::string() : "not here: " + why;
}

/// Defined by the executable.
std::vector<Candidate> candidates();

// ---- what the cases are parameterised by ----

struct CandidateParam {
  std::shared_ptr<const Candidate> candidate;
};
struct PairingParam {
  std::shared_ptr<const Candidate> candidate;
  Pairing pairing;
};

std::vector<CandidateParam> all_candidates();
std::vector<PairingParam> all_pairings();
std::vector<PairingParam> peer_pairings();

std::string label_of(const CandidateParam& param);
std::string label_of(const PairingParam& param);
// GoogleTest finds these by their name.
// NOLINTBEGIN(readability-identifier-naming)
inline void PrintTo(const CandidateParam& param, std::ostream* out) { *out << label_of(param); }
inline void PrintTo(const PairingParam& param, std::ostream* out) { *out << label_of(param); }
// NOLINTEND(readability-identifier-naming)

}  // namespace towpath::backend::conformance
