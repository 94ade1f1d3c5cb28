#include <algorithm>
#include <atomic>
#include <utility>

#include <towpath/agent/chunk_stream.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

/// Between two looks at what the consumer has taken.
constexpr Duration kLookEvery = std::chrono::microseconds(100);
constexpr Duration kSleepAtMost = std::chrono::milliseconds(50);

bool is_word(const std::uint64_t* word) {
  return word != nullptr && reinterpret_cast<std::uintptr_t>(word) % Word::required_alignment == 0;
}

}  // namespace

Result<ChunkStream> ChunkStream::open(ChunkStreamOptions options) {
  const bool reports = options.advertised_on_device == nullptr ? is_word(options.advertised)
                                                               : options.advertised == nullptr;
  const bool words = reports && (options.taken == nullptr || is_word(options.taken));
  if (options.agent == nullptr || !words || options.depth == 0 ||
      (options.taken != nullptr && options.slots == 0))
    return error(Code::invalid_argument, "a stream of chunks without an agent, words or room",
                 "fill in ChunkStreamOptions; words lie at multiples of 8");
  if (!options.local.valid() || !options.remote.valid() ||
      options.local.size() != options.remote.size())
    return error(
        Code::invalid_argument,
        cat("chunks come from ", options.remote.size(), " extents into ", options.local.size()),
        "prepare both sides with an extent for each chunk");
  ChunkStream stream(std::move(options));
  TOWPATH_TRY(stream.notify(0));
  return stream;
}

ChunkStream::~ChunkStream() {
  if (flights_.empty() || options_.agent->is_inherited()) return;  // moved from, or the parent's
  cancel();
  while (!ended_)
    if (!progress() && !ended_) options_.agent->wait_for_work(kSleepAtMost);
}

// Pairs with the consumer's acquire. What a chunk's bytes were written by happened before: the
// agent has seen the transfer's end.
Status ChunkStream::notify(std::uint64_t word) {
  if (options_.advertised_on_device != nullptr) return options_.advertised_on_device->write(word);
  Word(*options_.advertised).store(word, std::memory_order_release);
  return {};
}

bool ChunkStream::has_room() const noexcept {
  if (next_ - landed_ >= flights_.size()) return false;
  if (options_.taken == nullptr) return true;
  // Acquire: the consumer's last look at a slot comes before its release, and that before the bytes
  // of the next chunk there. A consumer that claims more than there was is not believed.
  const std::uint64_t taken = Word(*options_.taken).load(std::memory_order_acquire);
  return next_ - std::min(taken, landed_) < options_.slots;
}

Status ChunkStream::post(std::uint64_t chunk) {
  const Selection one = Selection::range(chunk, 1);
  TransferOptions how{
      .local = one, .remote = one, .notification = {}, .backends = options_.backends};
  TOWPATH_TRY(flight(chunk), options_.agent->make_transfer(TransferOp::read, options_.local,
                                                           options_.remote, how));
  return flight(chunk).post({.timeout = options_.timeout, .notification = {}});
}

/// Passes the chunks that have landed in their order, and tells of them at once.
bool ChunkStream::land() {
  const std::uint64_t before = landed_;
  while (status_.ok() && landed_ < next_ && flight(landed_).ended()) {
    if (flight(landed_).outcome() == Outcome::done)
      ++landed_;
    else
      stop(flight(landed_).status());
  }
  if (landed_ == before) return false;
  if (Status advertised = notify(landed_); !advertised.ok()) stop(std::move(advertised));
  return true;
}

bool ChunkStream::launch() {
  const std::uint64_t before = next_;
  while (status_.ok() && next_ < options_.local.size() && has_room()) {
    if (Status posted = post(next_); !posted.ok())
      stop(std::move(posted));
    else
      ++next_;
  }
  return next_ != before;
}

bool ChunkStream::progress() {
  if (ended_) return false;
  bool moved = options_.agent->progress();
  moved = land() || moved;
  moved = launch() || moved;
  close_if_quiesced();
  return moved && !ended_;
}

void ChunkStream::wait() {
  while (!ended_) {
    if (progress() || ended_) continue;
    const bool looks = options_.taken != nullptr && next_ < options_.local.size();
    options_.agent->wait_for_work(looks ? kLookEvery : kSleepAtMost);
  }
}

void ChunkStream::cancel() {
  if (!ended_) stop(error(Code::cancelled, cat("the stream ended after ", landed_, " chunks")));
}

void ChunkStream::stop(Status why) {
  if (!status_.ok()) return;
  status_ = std::move(why);
  for (std::uint64_t chunk = landed_; chunk < next_; ++chunk) flight(chunk).cancel();
}

void ChunkStream::close_if_quiesced() {
  const bool all_landed = landed_ == options_.local.size();
  if (ended_ || (status_.ok() && !all_landed)) return;
  for (std::uint64_t chunk = landed_; chunk < next_; ++chunk)
    if (!flight(chunk).ended()) return;
  ended_ = true;
  Status advertised = notify(landed_ | kStreamClosed);
  if (status_.ok()) status_ = std::move(advertised);
}

}  // namespace towpath::agent
