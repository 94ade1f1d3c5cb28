#include <algorithm>
#include <cstring>

#include <towpath/backends/object/reply.h>
#include <towpath/backends/object/scatter.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/base64.h>

namespace towpath::backends::object {
namespace {

/// The bytes that [a, b) and the piece have in common.
struct Overlap {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t size() const noexcept { return end > begin ? end - begin : 0; }
};
Overlap overlap_of(const Piece& piece, std::uint64_t a, std::uint64_t b) noexcept {
  return {std::max(a, piece.place), std::min(b, piece.end())};
}

Status other_than_asked(std::string why) {
  return error(Code::corrupt, std::move(why),
               "what stands between here and the store alters answers, or it is no S3 store");
}

}  // namespace

// ---- Scatter

std::string Scatter::range() const {
  return whole_ ? std::string() : cat("bytes=", at_, "-", fetch_.end - 1);
}

void Scatter::restart() noexcept {
  at_ = fetch_.begin;
  next_ = fetch_.pieces;
  bytes_ = 0;
  sha256_ = net::Sha256();
}

void Scatter::read_whole(bool whole) noexcept {
  whole_ = whole;
  restart();
}

void Scatter::renew() noexcept {
  if (whole_ || at_ == fetch_.end) restart();
}

Status Scatter::begin(const net::HttpResponse& head) {
  TOWPATH_TRY(check_version(head));
  return head.status == 206 ? begin_part(head) : begin_all(head);
}

Status Scatter::check_version(const net::HttpResponse& head) {
  const std::string_view tag = head.header("etag");
  if (tag.empty()) return {};
  if (version_.empty()) version_ = tag;
  if (version_ == tag) return {};
  return error(Code::corrupt,
               cat("the object was replaced while it was read: its tag was ", printable(version_),
                   " and is ", printable(tag)),
               "read it again; give what changes a new key");
}

Status Scatter::begin_part(const net::HttpResponse& head) {
  const std::string_view text = head.header("content-range");
  const auto range = parse_content_range(text);
  if (!range || range->first != at_ || range->last >= fetch_.end)
    return other_than_asked(cat("asked for ", this->range(), ", and '", printable(text), "' came"));
  until_ = range->last + 1;
  object_bytes_ = range->total;
  if (until_ < fetch_.end && object_bytes_.value_or(until_) != until_)
    return other_than_asked(
        cat("asked for ", this->range(), ", and only '", printable(text), "' came"));
  return {};
}

// Without a range in the answer, all of the object comes.
Status Scatter::begin_all(const net::HttpResponse& head) {
  object_bytes_ = parse_size(head.header("content-length"));
  if (at_ != 0 || object_bytes_.value_or(UINT64_MAX) > fetch_.end)
    return error(Code::unsupported,
                 cat("asked for ", this->range(), " of an object, and all of it came"),
                 "use a store that knows ranges");
  until_ = *object_bytes_;
  checksum_ = head.header("x-amz-checksum-sha256");
  // "...=-3": of the checksums of three parts, and not of these bytes. No base64 has a hyphen.
  if (checksum_.find('-') != std::string::npos) checksum_.clear();
  return {};
}

Status Scatter::take(ConstByteSpan bytes) {
  if (bytes.size() > until_ - at_)
    return other_than_asked(
        cat("more than the ", until_ - fetch_.begin, " bytes came that were said"));
  if (!checksum_.empty()) sha256_.add(bytes);
  const std::uint64_t end = at_ + bytes.size();
  for (const Piece& piece : next_) {
    if (piece.place >= end) break;
    const Overlap part = overlap_of(piece, at_, end);
    if (part.size() == 0) continue;
    std::memcpy(bytes_at(piece.address + (part.begin - piece.place), part.size()).data(),
                bytes.data() + (part.begin - at_), part.size());
    bytes_ += part.size();
  }
  at_ = end;
  while (!next_.empty() && next_.front().end() <= at_) next_ = next_.subspan(1);
  return {};
}

Status Scatter::finish() {
  if (at_ != until_)
    return other_than_asked(
        cat("a body of ", until_ - fetch_.begin, " bytes ended after ", at_ - fetch_.begin));
  if (!checksum_.empty() && net::to_base64(sha256_.finish()) != checksum_) {
    restart();  // none of it counts
    return error(Code::corrupt, "the object is not what its SHA-256 says",
                 "it was damaged in the store or on the way: put it again");
  }
  if (at_ == fetch_.end) return {};
  return error(Code::out_of_range,
               cat("the object ends at ", at_, ", and bytes up to ", fetch_.end, " were asked for"),
               "it was never that long, or was replaced: write it before reading");
}

void Scatter::fail(backend::RequestProgress& progress, const Status& why) const {
  for (const Piece& piece : next_) {
    const Overlap part = overlap_of(piece, std::max(at_, fetch_.begin), fetch_.end);
    if (part.size() > 0)
      progress.failed({piece.segment, piece.extent, part.begin - piece.place}, part.size(), why);
  }
}

// ---- Gather

Gather::Gather(Pieces pieces, std::uint64_t begin, std::uint64_t end) noexcept
    : pieces_(pieces), begin_(begin), end_(end) {}

void Gather::read(std::uint64_t offset, ByteSpan into) {
  std::uint64_t place = begin_ + offset;
  const bool follows =
      hint_ < pieces_.size() && pieces_[hint_].place <= place && place < pieces_[hint_].end();
  if (!follows) {
    const auto behind = std::ranges::upper_bound(pieces_, place, {}, &Piece::place);
    hint_ = static_cast<std::size_t>(behind - pieces_.begin()) - 1;
  }
  while (!into.empty()) {
    const Piece& piece = pieces_[hint_];
    const std::uint64_t length = std::min<std::uint64_t>(into.size(), piece.end() - place);
    std::memcpy(into.data(), bytes_at(piece.address + (place - piece.place), length).data(),
                length);
    into = into.subspan(length);
    place += length;
    if (place == piece.end()) ++hint_;
  }
}

}  // namespace towpath::backends::object
