#include <algorithm>
#include <deque>
#include <mutex>

#include <towpath/core/format.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::sys {
namespace {

/// One direction. The two ends may be used by two threads.
struct Direction {
  std::mutex mutex;
  std::deque<std::byte> bytes;
  std::uint64_t total = 0;  // that were ever written
  bool writer_gone = false;
  bool reader_gone = false;
};

class MemoryStream final : public ByteStream {
 public:
  MemoryStream(std::shared_ptr<Direction> in, std::shared_ptr<Direction> out,
               const MemoryStreamOptions& options)
      : in_(std::move(in)), out_(std::move(out)), options_(options) {}

  ~MemoryStream() override {
    {
      const std::lock_guard lock(in_->mutex);
      in_->reader_gone = true;
    }
    const std::lock_guard lock(out_->mutex);
    out_->writer_gone = true;
  }

  Result<Read> read_some(ByteSpan into) override {
    if (into.empty()) return error(Code::invalid_argument, "a read into no bytes");
    if (stalls(reads_)) return Read{};
    const std::lock_guard lock(in_->mutex);
    const std::size_t length = std::min({into.size(), in_->bytes.size(), options_.most_per_read});
    std::copy_n(in_->bytes.begin(), length, into.begin());
    in_->bytes.erase(in_->bytes.begin(), in_->bytes.begin() + static_cast<std::ptrdiff_t>(length));
    if (length == 0 && is_cut(*in_)) return cut_error();
    return Read{.size_bytes = length, .ended = length == 0 && in_->writer_gone};
  }

  Result<std::size_t> write_some(ConstByteSpan from) override {
    if (stalls(writes_)) return std::size_t{0};
    const std::lock_guard lock(out_->mutex);
    if (out_->reader_gone) return error(Code::peer_lost, "the other end of the stream is closed");
    if (is_cut(*out_)) return cut_error();
    const std::uint64_t until_cut =
        options_.cut_after_bytes ? *options_.cut_after_bytes - out_->total : UINT64_MAX;
    const std::size_t room = options_.capacity_bytes - out_->bytes.size();
    const std::size_t length =
        std::min<std::uint64_t>({from.size(), room, options_.most_per_write, until_cut});
    out_->bytes.insert(out_->bytes.end(), from.begin(),
                       from.begin() + static_cast<std::ptrdiff_t>(length));
    out_->total += length;
    return length;
  }

  int fd() const noexcept override { return -1; }

 private:
  bool stalls(std::uint64_t& calls) const {
    return options_.every_other_call_stalls && calls++ % 2 == 0;
  }
  bool is_cut(const Direction& direction) const {
    return options_.cut_after_bytes && direction.total >= *options_.cut_after_bytes;
  }
  Status cut_error() const {
    return error(Code::peer_lost,
                 cat("the stream was cut after ", *options_.cut_after_bytes, " bytes"));
  }

  std::shared_ptr<Direction> in_;
  std::shared_ptr<Direction> out_;
  MemoryStreamOptions options_;
  std::uint64_t reads_ = 0;
  std::uint64_t writes_ = 0;
};

}  // namespace

std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> make_memory_streams(
    const MemoryStreamOptions& options) {
  auto there = std::make_shared<Direction>();
  auto back = std::make_shared<Direction>();
  return {std::make_unique<MemoryStream>(back, there, options),
          std::make_unique<MemoryStream>(there, back, options)};
}

}  // namespace towpath::sys
