// Scatter: where the body of one ranged GET goes: to the extents that want its bytes, straight
// from libcurl's buffer. And Gather: where the body of a PUT comes from.
//
// Scatter holds the response to what was asked: a body of another range, of another version of the
// object, too long or too short, never counts as data.
// Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <towpath/backend/request_progress.h>
#include <towpath/backends/object/plan.h>
#include <towpath/net/digest.h>
#include <towpath/net/http.h>

namespace towpath::backends::object {

class Scatter final : public net::HttpSink {
 public:
  /// `version`: the entity tag of the object that this request reads, empty until one is known; all
  /// fetches of one object share it.
  Scatter(const Fetch& fetch, std::string& version) noexcept
      : fetch_(fetch), version_(version), at_(fetch.begin), next_(fetch.pieces) {}

  /// The header for what is still to come; nothing for all of an object, which is checked against
  /// its checksum.
  std::string range() const;
  /// Asks for all of the object, or not, from the begin of what is fetched. The checksum of all of
  /// it can be compared, that of a range cannot.
  void read_whole(bool whole) noexcept;
  bool reads_whole() const noexcept { return whole_; }
  /// Before it is asked again: goes on where the answer ended, or from the begin.
  void renew() noexcept;

  Status begin(const net::HttpResponse& head) override;
  Status take(ConstByteSpan bytes) override;

  /// After an answer of status 2xx: whether the response was all that it said, and good.
  Status finish();
  /// Reports what of the extents is not in place, and why.
  void fail(backend::RequestProgress& progress, const Status& why) const;
  /// Bytes in place, each of them counted once for each extent that has it.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Bytes that came for no extent.
  std::uint64_t wasted() const noexcept {
    const std::uint64_t came = at_ - fetch_.begin;
    return came - std::min(bytes_, came);
  }
  const Fetch& fetch() const noexcept { return fetch_; }

 private:
  Status begin_part(const net::HttpResponse& head);
  Status begin_all(const net::HttpResponse& head);
  Status check_version(const net::HttpResponse& head);
  void restart() noexcept;

  const Fetch fetch_;
  std::string& version_;
  std::uint64_t at_;         // the next byte of the object that comes
  std::uint64_t until_ = 0;  // where this response ends
  std::optional<std::uint64_t> object_bytes_;
  Pieces next_;  // without those at the begin that are complete
  std::uint64_t bytes_ = 0;
  bool whole_ = false;
  std::string checksum_;
  net::Sha256 sha256_;
};

class Gather final : public net::HttpSource {
 public:
  /// Bytes [begin, end) of an object whose pieces follow each other without gaps.
  Gather(Pieces pieces, std::uint64_t begin, std::uint64_t end) noexcept;
  std::uint64_t size_bytes() const override { return end_ - begin_; }
  void read(std::uint64_t offset, ByteSpan into) override;

 private:
  const Pieces pieces_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  std::size_t hint_ = 0;  // the piece of the last byte read
};

}  // namespace towpath::backends::object
