#include <algorithm>
#include <cerrno>

#include <poll.h>

#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/file_device.h>
#include <towpath/sys/file_engine.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

// Without a byte of progress. More than any signal storm; few enough to end soon.
constexpr std::uint32_t kMostTries = 64;

std::string_view verb_of(FileIo::Kind kind) {
  switch (kind) {
    case FileIo::Kind::read: return "read";
    case FileIo::Kind::write: return "write";
    case FileIo::Kind::sync: break;
  }
  return "sync";
}

std::string failure_of(const FileRequest& request) {
  const std::string name = cat(" '", printable(request.file->path(), 256), "'");
  if (request.kind == FileIo::Kind::sync) return cat("cannot sync", name);
  return cat("cannot ", verb_of(request.kind), " ", request.length() - request.moved,
             " bytes at offset ", request.offset + request.moved, " of", name);
}

/// The file is a part of what its descriptor names: nothing goes beyond.
bool leaves_range(const FileRequest& request) {
  return !range_fits(request.offset, request.length(), request.file->fd_range().size_bytes);
}

Status no_such_range(const FileRequest& request) {
  return error(request.kind == FileIo::Kind::write ? Code::exhausted : Code::corrupt,
               cat(failure_of(request), ": it has ", request.file->fd_range().size_bytes, " bytes"),
               "this is a bug of the caller");
}

Status ends_early(const FileRequest& request) {
  return error(Code::corrupt, cat(failure_of(request), ": the file ends there"),
               "the file was cut, or was never that long");
}

/// What [moved, end) of the request lies in.
std::array<IoPart, 2> rest_of(const FileRequest& request) {
  std::array<IoPart, 2> rest{};
  std::size_t count = 0;
  std::uint64_t skip = request.moved;
  for (const IoPart& part : request.parts) {
    const std::uint64_t here = std::min<std::uint64_t>(skip, part.size_bytes);
    skip -= here;
    if (here == part.size_bytes) continue;
    rest[count++] = {static_cast<std::byte*>(part.data) + here, part.size_bytes - here};
  }
  return rest;
}

Status move_part(const FileRequest& request, const IoPart& part, std::uint64_t offset) {
  const ByteSpan bytes(static_cast<std::byte*>(part.data), part.size_bytes);
  return request.kind == FileIo::Kind::write ? write_exactly(*request.file, bytes, offset)
                                             : read_exactly(*request.file, bytes, offset);
}

}  // namespace

Status FileDevice::finish(FileRequest& request) {
  constexpr Duration kNap = std::chrono::milliseconds(100);
  begin(request);
  while (!request.has_ended)
    if (!progress()) wait(kNap);
  return request.status;
}

// The file itself --------------------------------------------------------------------------------

Status perform(FileRequest& request) {
  if (request.kind == FileIo::Kind::sync) return request.file->sync();
  std::uint64_t offset = request.offset;
  for (const IoPart& part : request.parts) {
    if (part.size_bytes != 0) TOWPATH_TRY(move_part(request, part, offset));
    offset += part.size_bytes;
  }
  request.moved = request.length();
  return {};
}

void DirectFileDevice::begin(FileRequest& request) { request.end(perform(request)); }

// An engine --------------------------------------------------------------------------------------

EngineFileDevice::EngineFileDevice(std::unique_ptr<FileEngine> engine, std::uint32_t depth)
    : engine_(std::move(engine)), places_(depth) {
  for (std::uint32_t i = 0; i < depth; ++i) free_.push_back(depth - 1 - i);
}

void EngineFileDevice::begin(FileRequest& request) {
  if (leaves_range(request)) return request.end(no_such_range(request));
  waiting_.push_back(&request);
}

EngineFileDevice::~EngineFileDevice() {
  TOWPATH_CHECK(waiting_.empty() && free_.size() == places_.size(),
                "a device goes when its requests have ended");
}

void EngineFileDevice::cancel(FileRequest& request) {
  if (request.has_ended) return;
  request.is_cancelled = true;
  if (std::erase(waiting_, &request) > 0)
    return request.end(error(Code::cancelled, cat(failure_of(request), ": cancelled")));
  for (std::uint32_t place = 0; place < places_.size(); ++place)
    if (places_[place].request == &request) engine_->cancel(place);
}

void EngineFileDevice::start() {
  while (!waiting_.empty() && !free_.empty()) {
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place].request = waiting_.front();
    waiting_.pop_front();
    submit(place);
  }
}

void EngineFileDevice::submit(std::uint32_t place) {
  Place& here = places_[place];
  const FileRequest& request = *here.request;
  here.rest = rest_of(request);
  const std::size_t count = here.rest[1].size_bytes == 0 ? 1 : 2;
  engine_->submit({.id = place,
                   .kind = request.kind,
                   .buffered = !request.file->direct(),
                   .file = {.fd = request.file->fd()},
                   .offset = request.file->fd_range().begin + request.offset + request.moved,
                   .parts = std::span(here.rest).first(count)});
}

bool EngineFileDevice::progress() {
  if (waiting_.empty() && free_.size() == places_.size() && !may_be_readable_) return false;
  engine_->clear_wait_fd();  // before the look: what ends behind it is not missed
  may_be_readable_ = false;
  start();
  (void)engine_->flush();  // what the kernel does not take now, it takes next time
  std::array<IoDone, 64> batch;
  bool some = false, again = false;
  for (std::size_t count = batch.size(); count == batch.size();) {
    count = engine_->reap(batch);
    may_be_readable_ = may_be_readable_ || count > 0;  // it ended behind that, or before
    for (const IoDone& done : std::span(batch).first(count)) {
      const bool ended = settle(static_cast<std::uint32_t>(done.id), done.result);
      (ended ? some : again) = true;
    }
  }
  start();
  if (some || again) (void)engine_->flush();
  return some;
}

/// False: it goes on.
bool EngineFileDevice::settle(std::uint32_t place, std::int32_t result) {
  FileRequest& request = *places_[place].request;
  const auto end = [&](Status how) {
    places_[place].request = nullptr;
    free_.push_back(place);
    request.end(std::move(how));
    return true;
  };
  if (result > 0) {
    // Past the page cache what ends inside a block is moved again with the whole block.
    const auto moved = static_cast<std::uint64_t>(result);
    const std::uint64_t left = request.length() - request.moved;
    const std::uint64_t kept = moved < left ? moved - moved % request.file->alignment() : moved;
    request.moved += kept;
    if (kept > 0)
      request.tries = 0;
    else
      result = 0;
  }
  if (result >= 0 && request.moved >= request.length()) return end({});
  if (request.is_cancelled)
    return end(error(Code::cancelled, cat(failure_of(request), ": cancelled")));
  if (result == 0 && request.kind == FileIo::Kind::read) return end(ends_early(request));
  const bool is_worth_a_try =
      result >= 0 || result == -EINTR || result == -EAGAIN || result == -ECANCELED;
  if (!is_worth_a_try && request.kind == FileIo::Kind::write)
    return end(write_error(-result, failure_of(request)));
  if (!is_worth_a_try) return end(os_error(-result, failure_of(request)));
  if (result <= 0 && ++request.tries > kMostTries)
    return end(
        error(Code::io_error, cat(failure_of(request), ": ", kMostTries, " tries moved nothing"))
            .because(os_error(result == 0 ? EIO : -result, "the last try")));
  submit(place);
  return false;
}

void EngineFileDevice::wait(Duration most) {
  if (free_.size() == places_.size() || engine_->wait_fd() < 0) return;
  pollfd ready{engine_->wait_fd(), POLLIN, 0};
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  (void)::poll(&ready, 1, static_cast<int>(whole));
}

}  // namespace towpath::sys
