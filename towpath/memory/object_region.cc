#include <climits>
#include <string_view>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/object_region.h>

namespace towpath::memory {
namespace {

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv).
constexpr std::uint64_t kBasis = 0xcbf29ce484222325;
constexpr std::uint64_t kPrime = 0x100000001b3;

std::uint64_t hashed(std::uint64_t state, std::string_view text) noexcept {
  for (const char letter : text) state = (state ^ static_cast<unsigned char>(letter)) * kPrime;
  return state;
}

}  // namespace

std::uint64_t object_device_id(const ObjectPlace& place) noexcept {
  using namespace std::string_view_literals;
  return hashed(hashed(hashed(kBasis, place.bucket), "\0"sv), place.key);
}

Result<std::shared_ptr<ObjectRegion>> ObjectRegion::create(ObjectPlace place) {
  constexpr std::uint64_t kFarthest = INT64_MAX;  // as far as an offset can go
  if (place.key.empty())
    return error(Code::invalid_argument, "an object without a key", "name the object");
  if (!place.size_bytes && place.offset < kFarthest) place.size_bytes = kFarthest - place.offset;
  if (place.size_bytes.value_or(0) == 0)
    return error(Code::invalid_argument, cat("object '", printable(place.key, 200), "' is empty"),
                 "ask for at least 1 byte, or for no size: to its end");
  if (!checked_add(place.offset, *place.size_bytes))
    return error(Code::out_of_range,
                 cat("object '", printable(place.key, 200), "' goes past the end of 64-bit space"),
                 "check offset and size");
  if (!place.device_id) place.device_id = object_device_id(place);
  return std::make_shared<ObjectRegion>(Private{}, std::move(place));
}

RegionDescriptor ObjectRegion::descriptor() const {
  return {.kind = MemoryKind::object,
          .address = place_.offset,
          .length = *place_.size_bytes,
          .device_id = *place_.device_id,
          .key = place_.bucket.empty() ? place_.key : cat("s3://", place_.bucket, "/", place_.key)};
}

}  // namespace towpath::memory
