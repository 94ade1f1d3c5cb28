// ObjectPlace: where a tier of objects keeps its blocks: part of a bucket, of a store that the
// environment or parameters name (object_settings.h), and how much of it at most. Written so in
// `towpath replay --tiers object=...`, and for a connector in C++, C and Python.
//
//   ObjectPlace::parse("s3://cold/llama-3.1-8b:10GiB")
//   ObjectPlace::parse("s3://cold/kv:1TiB?endpoint_override=http://10.0.0.7:9000&region=eu")
//   open_object_tier(place, {.agent = &agent, .block_bytes = bytes,
//                            .block_directory = &directory, .tier = 2}, clock)
//
// Thread: as ObjectTier's.
#pragma once

#include <memory>
#include <string>

#include <towpath/backend/backend.h>

namespace towpath::kv {
class ObjectTier;
struct ObjectTierOptions;
}  // namespace towpath::kv

namespace towpath::standard {

struct ObjectPlace {
  std::string bucket;  ///< empty: the environment's
  std::string prefix;  ///< of one model, share and shape
  std::uint64_t bound_bytes = 0;
  backend::Params params{};  ///< of the backend `object`, before the environment's

  /// "s3://BUCKET/PREFIX:SIZE", or "PREFIX:SIZE" in the environment's bucket; behind "?", with "&"
  /// between, parameters of the backend `object`, but for credentials: a place is shown to
  /// whoever asks. Errors: invalid_argument.
  static Result<ObjectPlace> parse(const std::string& whole);
};

/// Gives the agent the backend `object` first. `options` without bucket, prefix and bound, which
/// are the place's; `clock` outlives the tier. Errors: those of object_params(), of the backend and
/// of ObjectTier::open().
Result<std::unique_ptr<kv::ObjectTier>> open_object_tier(const ObjectPlace& place,
                                                         kv::ObjectTierOptions options,
                                                         const Clock& clock);

}  // namespace towpath::standard
