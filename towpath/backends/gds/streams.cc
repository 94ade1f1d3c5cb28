#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <towpath/backends/gds/streams.h>

namespace towpath::backends::gds {
namespace {

/// One I/O. The library has pointers to its numbers until the stream has passed it.
struct Io {
  std::uint64_t id = 0;
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t base_offset = 0;
  ssize_t moved = 0;     ///< the stream writes it
  bool is_over = false;  ///< without looking at the event
  std::shared_ptr<device::Event> passed;
};

}  // namespace

/// The streams of one GPU, known to libcufile, and what is in them.
class Streams::Gpu {
 public:
  /// All outlive it. Errors: the driver's, the library's.
  static Result<std::unique_ptr<Gpu>> open(device::Device& device, std::uint32_t streams,
                                           const CuFile& cufile, run::Waker& waker);
  Gpu(device::Device& device, const CuFile& cufile, run::Waker& waker)
      : device_(device.shared_from_this()), cufile_(cufile), waker_(waker) {}
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Errors: the driver's; nothing was given.
  Status submit(const Job& job);
  std::size_t reap(std::span<Done> into);

 private:
  Status provide();
  void give(const Job& job, Io& io);
  static std::optional<std::int32_t> result_of(const Io& io);

  const std::shared_ptr<device::Device> device_;
  const CuFile& cufile_;
  run::Waker& waker_;
  std::vector<std::unique_ptr<Io>> idle_, under_way_;
  std::size_t turn_ = 0;
  std::vector<std::shared_ptr<device::Stream>> streams_;  // last: they use the I/Os
};

Result<std::unique_ptr<Streams::Gpu>> Streams::Gpu::open(device::Device& device,
                                                         std::uint32_t streams,
                                                         const CuFile& cufile, run::Waker& waker) {
  auto gpu = std::make_unique<Gpu>(device, cufile, waker);
  TOWPATH_TRY(const auto current, device.make_current());
  for (std::uint32_t i = 0; i < streams; ++i) {
    TOWPATH_TRY(auto stream, device.create_stream());
    TOWPATH_TRY(
        cufile.check(cufile.call().stream_register(stream->native(), cufile::kNumbersAreFixed),
                     "libcufile does not take a stream of device ", device.info().ordinal));
    gpu->streams_.push_back(std::move(stream));
  }
  return gpu;
}

Streams::Gpu::~Gpu() {
  const auto current = device_->make_current();
  for (const auto& stream : streams_) {
    (void)stream->synchronize();
    if (current.ok()) (void)cufile_.call().stream_deregister(stream->native());
  }
}

Status Streams::Gpu::submit(const Job& job) {
  if (idle_.empty()) TOWPATH_TRY(provide());
  TOWPATH_TRY(const auto current, device_->make_current());
  Io& io = *idle_.back();
  io.id = job.id;
  io.size = static_cast<std::size_t>(job.length);
  io.file_offset = static_cast<off_t>(job.file_offset);
  io.base_offset = static_cast<off_t>(job.memory_offset);
  io.moved = -cufile::kInternal;  // until somebody says otherwise
  give(job, io);
  under_way_.push_back(std::move(idle_.back()));
  idle_.pop_back();
  return {};
}

/// As many as are ever under way at a time are made; then they serve again. Each has its place in
/// both lists before: none is forgotten while the stream may write to it.
Status Streams::Gpu::provide() {
  const std::size_t count = idle_.size() + under_way_.size() + 1;
  idle_.reserve(count);
  under_way_.reserve(count);
  auto io = std::make_unique<Io>();
  TOWPATH_TRY(io->passed, device_->create_event());
  idle_.push_back(std::move(io));
  return {};
}

void Streams::Gpu::give(const Job& job, Io& io) {
  device::Stream& stream = *streams_[turn_++ % streams_.size()];
  const auto call = job.write ? cufile_.call().stream_write : cufile_.call().stream_read;
  const cufile::Answer answer = call(job.file->handle(), job.memory->base(), &io.size,
                                     &io.file_offset, &io.base_offset, &io.moved, stream.native());
  io.is_over = answer.code != 0;
  if (io.is_over) io.moved = -answer.code;  // ended as any other that failed
  const auto wake = [&waker = waker_] { waker.wake(); };
  try {
    if (!io.is_over && stream.record(*io.passed).ok() && stream.run(wake).ok()) return;
  } catch (const std::bad_alloc&) {  // as where one fails
  }
  if (!io.is_over) (void)stream.synchronize();  // nothing would report later that it is over
  io.is_over = true;
  wake();
}

/// Nothing while it is under way.
std::optional<std::int32_t> Streams::Gpu::result_of(const Io& io) {
  if (!io.is_over) {
    const Result<bool> passed = io.passed->is_done();
    if (passed.ok() && !*passed) return std::nullopt;
    if (!passed.ok()) return -cufile::kCudaFailed;
  }
  return CuFile::result_of_stream(io.moved);
}

std::size_t Streams::Gpu::reap(std::span<Done> into) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < under_way_.size() && count < into.size();) {
    const auto result = result_of(*under_way_[i]);
    if (!result) {
      ++i;
      continue;
    }
    into[count++] = {under_way_[i]->id, *result};
    idle_.push_back(std::exchange(under_way_[i], std::move(under_way_.back())));
    under_way_.pop_back();
  }
  return count;
}

Result<std::unique_ptr<Streams>> Streams::open(const Options& options, const CuFile& cufile,
                                               Counters& counters) {
  TOWPATH_TRY(auto waker, run::Waker::open());
  return std::unique_ptr<Streams>(new Streams(options, cufile, counters, std::move(waker)));
}

Streams::Streams(const Options& options, const CuFile& cufile, Counters& counters,
                 std::unique_ptr<run::Waker> waker)
    : options_(options), cufile_(cufile), counters_(counters), waker_(std::move(waker)) {}

Streams::~Streams() = default;

std::string Streams::describe() const {
  return cat("in the order of ", options_.streams, " streams of the GPU");
}

Status Streams::submit(const Job& job) {
  device::Device& device = job.memory->device();
  auto& gpu = gpus_[device.info().ordinal];
  if (gpu == nullptr) {
    TOWPATH_TRY(gpu, Gpu::open(device, options_.streams, cufile_, *waker_));
  }
  TOWPATH_TRY(gpu->submit(job));
  counters_.calls.add();
  return {};
}

std::size_t Streams::reap(std::span<Done> into) {
  std::size_t count = 0;
  for (const auto& [ordinal, gpu] : gpus_) {
    if (gpu != nullptr) count += gpu->reap(into.subspan(count));
  }
  return count;
}

}  // namespace towpath::backends::gds
