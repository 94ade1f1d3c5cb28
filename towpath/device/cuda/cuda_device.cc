#include <cstring>
#include <limits>

#include <towpath/device/cuda/cuda_device.h>
#include <towpath/device/cuda/cuda_stream.h>

namespace towpath::device::cuda {
namespace {

void* pointer(std::uint64_t address) { return bytes_at(address, 1).data(); }

Status check_size(std::uint64_t size_bytes) {
  if (size_bytes > 0) return {};
  return error(Code::invalid_argument, "cannot allocate 0 bytes", "ask for at least 1 byte");
}

CuIpcHandle to_cuda(const IpcHandle& handle) {
  CuIpcHandle theirs;
  std::memcpy(theirs.reserved, handle.bytes.data(), sizeof theirs.reserved);
  return theirs;
}
IpcHandle from_cuda(const CuIpcHandle& handle) {
  IpcHandle ours;
  std::memcpy(ours.bytes.data(), handle.reserved, ours.bytes.size());
  return ours;
}

}  // namespace

Result<PrimaryContext> PrimaryContext::retain(std::shared_ptr<const CudaLibrary> cuda,
                                              unsigned ordinal) {
  const RelaxedCapture capture(*cuda);
  CuDevice device = 0;
  CuContext context = nullptr;
  TOWPATH_TRY(cuda->check(cuda->call().device_get(&device, static_cast<int>(ordinal)),
                          "cannot find GPU ", ordinal));
  TOWPATH_TRY(cuda->check(cuda->call().context_retain(&context, device),
                          "cannot have the primary context of GPU ", ordinal));
  return PrimaryContext(std::move(cuda), device, context);
}

PrimaryContext::~PrimaryContext() {
  if (cuda_ != nullptr) (void)cuda_->call().context_release(device_);
}

CurrentScope::CurrentScope(const PrimaryContext& context)
    : cuda_(context.cuda()),
      status_(cuda_.check(cuda_.call().context_push(context.get()),
                          "cannot make the context of GPU ", context.device(), " current")) {}

CurrentScope::~CurrentScope() {
  CuContext popped = nullptr;
  if (status_.ok()) (void)cuda_.call().context_pop(&popped);
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(std::shared_ptr<const CudaLibrary> cuda,
                                                     DriverInfo driver, DeviceInfo info) {
  TOWPATH_TRY(PrimaryContext context, PrimaryContext::retain(std::move(cuda), info.ordinal));
  auto device =
      std::make_shared<CudaDevice>(std::move(context), std::move(driver), std::move(info));
  const CurrentScope scope(device->context_);
  TOWPATH_TRY(scope.status());
  TOWPATH_TRY(device->cuda().check(
      device->cuda().call().stream_create(&device->copies_, kStreamNonBlocking),
      "cannot make a stream on GPU ", device->info_.ordinal));
  return device;
}

/// That of all devices so far, where the driver does not say.
std::uint64_t CudaDevice::max_pitch_of(const PrimaryContext& context) {
  int most = 0;
  const CuResult result =
      context.cuda().call().device_attribute(&most, DeviceAttribute::max_pitch, context.device());
  if (result == kSuccess && most > 0) return static_cast<std::uint64_t>(most);
  return std::numeric_limits<std::int32_t>::max();
}

bool CudaDevice::has_host_addresses(const PrimaryContext& context) {
  int has = 1;
  const CuResult result = context.cuda().call().device_attribute(
      &has, DeviceAttribute::host_addresses, context.device());
  return result != kSuccess || has != 0;
}

CudaDevice::~CudaDevice() {
  const CurrentScope scope(context_);
  if (copies_ != nullptr) (void)cuda().call().stream_destroy(copies_);
  kernel_.unload();
}

Result<MemoryFigures> CudaDevice::figures() const {
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  TOWPATH_TRY(cuda().check(cuda().call().memory_info(&free_bytes, &total_bytes),
                           "cannot ask for the free memory of GPU ", info_.ordinal));
  return MemoryFigures{.free_bytes = free_bytes, .total_bytes = total_bytes};
}

Result<std::unique_ptr<Current>> CudaDevice::make_current() {
  auto scope = std::make_unique<CurrentScope>(context_);
  TOWPATH_TRY(scope->status());
  return std::unique_ptr<Current>(std::move(scope));
}

// Memory ------------------------------------------------------------------------------------------

Result<Memory> CudaDevice::allocate(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_size(size_bytes));
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuAddress address = 0;
  TOWPATH_TRY(cuda().check(cuda().call().allocate(&address, size_bytes), "cannot allocate ",
                           size_bytes, " bytes on GPU ", info_.ordinal));
  return Memory(shared_from_this(), {.origin = Origin::device,
                                     .address = address,
                                     .size_bytes = size_bytes,
                                     .device_address = address});
}

Result<Memory> CudaDevice::pinned(MemoryFacts facts) {
  CuAddress address = 0;
  const CuResult result = cuda().call().host_to_device(&address, pointer(facts.address), 0);
  facts.device_address = address;
  Memory memory(shared_from_this(), facts);  // from here on it is given back on every way out
  TOWPATH_TRY(cuda().check(result, "GPU ", info_.ordinal, " does not reach ", facts.size_bytes,
                           " pinned bytes at ", hex(facts.address)));
  return memory;
}

Result<Memory> CudaDevice::allocate_pinned(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_size(size_bytes));
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  void* address = nullptr;
  TOWPATH_TRY(
      cuda().check(cuda().call().allocate_host(&address, size_bytes, kPortable | kDeviceMap),
                   "cannot allocate ", size_bytes, " pinned bytes"));
  return pinned(
      {.origin = Origin::pinned, .address = address_of(address), .size_bytes = size_bytes});
}

Result<Memory> CudaDevice::register_host(ByteSpan bytes) {
  if (bytes.empty() || bytes.data() == nullptr)
    return error(Code::invalid_argument, "cannot register no bytes", "pass mapped memory");
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  TOWPATH_TRY(
      cuda().check(cuda().call().register_host(bytes.data(), bytes.size(), kPortable | kDeviceMap),
                   "cannot register ", bytes.size(), " bytes at ", hex(address_of(bytes.data()))));
  return pinned({.origin = Origin::registered,
                 .address = address_of(bytes.data()),
                 .size_bytes = bytes.size()});
}

CuResult CudaDevice::free_by_origin(const MemoryFacts& facts) const {
  switch (facts.origin) {
    case Origin::device: return cuda().call().free(facts.address);
    case Origin::pinned: return cuda().call().free_host(pointer(facts.address));
    case Origin::registered: return cuda().call().unregister_host(pointer(facts.address));
    case Origin::imported: return cuda().call().ipc_close(facts.address);
  }
  return kInvalidValue;
}

Status CudaDevice::give_back(const MemoryFacts& facts) {
  const CurrentScope scope(context_);
  const CuResult result = scope.status().ok() ? free_by_origin(facts) : kDeinitialized;
  // The driver ends before the process does; what it had went with it.
  if (result == kDeinitialized) return {};
  return cuda().check(result, "cannot give back ", facts.size_bytes, " bytes at ",
                      hex(facts.address), " of GPU ", info_.ordinal);
}

// Work --------------------------------------------------------------------------------------------

Result<std::shared_ptr<Stream>> CudaDevice::create_stream() {
  return CudaStream::create(std::static_pointer_cast<CudaDevice>(shared_from_this()));
}

Result<std::shared_ptr<Event>> CudaDevice::create_event(const EventOptions& options) {
  return CudaEvent::create(std::static_pointer_cast<CudaDevice>(shared_from_this()), options);
}

Result<std::shared_ptr<Pool>> CudaDevice::create_pool(const PoolOptions& options) {
  return CudaPool::create(std::static_pointer_cast<CudaDevice>(shared_from_this()), options);
}

Status CudaDevice::has_box_kernel() {
  if (!reaches_host_addresses_)
    return error(
        Code::unsupported,
        cat("GPU ", info_.ordinal, " reaches pinned memory at other addresses than the host"),
        "copies go without the kernel");
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  return kernel_.load();
}

// CUDA's own copy call may return while the last bytes are under way from its staging buffer.
Status CudaDevice::copy(const Copy& what) {
  if (what.length == 0) return {};
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuResult result = cuda().call().copy(what.target, what.source, what.length, copies_);
  if (result == kSuccess) result = cuda().wait_for(copies_);
  return cuda().check(result, "cannot copy ", what.length, " bytes from ", hex(what.source), " to ",
                      hex(what.target));
}

// Other devices and processes ---------------------------------------------------------------------

Result<bool> CudaDevice::can_reach(const Device& peer) const {
  const auto* const theirs = dynamic_cast<const CudaDevice*>(&peer);
  if (theirs == nullptr) return false;
  if (theirs->context_.device() == context_.device()) return true;
  int can = 0;
  TOWPATH_TRY(
      cuda().check(cuda().call().peer_can(&can, context_.device(), theirs->context_.device()),
                   "cannot ask whether GPU ", info_.ordinal, " reaches GPU ", peer.info().ordinal));
  return can != 0;
}

Status CudaDevice::enable_peer(const Device& peer) {
  TOWPATH_TRY(const bool can, can_reach(peer));
  if (!can)
    return error(Code::unsupported,
                 cat("GPU ", info_.ordinal, " does not reach memory of ", peer.info().name, " ",
                     peer.info().ordinal),
                 "copy through host memory");
  const auto& theirs = static_cast<const CudaDevice&>(peer);
  if (theirs.context_.device() == context_.device()) return {};
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  const CuResult result = cuda().call().peer_enable(theirs.context_.get(), 0);
  if (result == kPeerAccessAlreadyEnabled) return {};
  return cuda().check(result, "cannot let GPU ", info_.ordinal, " reach GPU ", peer.info().ordinal);
}

Result<IpcHandle> CudaDevice::export_memory(const Memory& memory) {
  if (memory.origin() != Origin::device || memory.device().get() != this)
    return error(Code::invalid_argument,
                 cat(hex(memory.address()), " is no memory that this device allocated"),
                 "export what allocate() gave");
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuIpcHandle handle;
  TOWPATH_TRY(cuda().check(cuda().call().ipc_export(&handle, memory.address()), "cannot export ",
                           memory.size(), " bytes at ", hex(memory.address())));
  return from_cuda(handle);
}

Result<ExportedMemory> CudaDevice::export_at(std::uint64_t address) {
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuAddress begin = 0;
  std::size_t size = 0;
  TOWPATH_TRY(cuda().check(cuda().call().allocation_of(&begin, &size, address),
                           "cannot ask in which memory ", hex(address), " lies"));
  CuIpcHandle handle;
  TOWPATH_TRY(cuda().check(cuda().call().ipc_export(&handle, begin), "cannot export ", size,
                           " bytes at ", hex(begin)));
  return ExportedMemory{.handle = from_cuda(handle), .offset = address - begin, .size_bytes = size};
}

Result<Memory> CudaDevice::import_memory(const IpcHandle& handle, std::uint64_t size_bytes) {
  TOWPATH_TRY(check_size(size_bytes));
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuAddress address = 0;
  TOWPATH_TRY(
      cuda().check(cuda().call().ipc_import(&address, to_cuda(handle), kIpcLazyEnablePeerAccess),
                   "cannot map another process's memory on GPU ", info_.ordinal));
  Memory memory(shared_from_this(), {.origin = Origin::imported,
                                     .address = address,
                                     .size_bytes = size_bytes,
                                     .device_address = address});
  // The size is the other process's word. What it has not is never touched.
  CuAddress begin = 0;
  std::size_t size = 0;
  TOWPATH_TRY(cuda().check(cuda().call().allocation_of(&begin, &size, address),
                           "cannot ask for the size of another process's memory"));
  if (size_bytes <= size) return memory;
  return error(Code::invalid_argument,
               cat("another process's memory has ", size, " bytes and not ", size_bytes),
               "pass the size that it was allocated with");
}

Result<IpcHandle> CudaDevice::export_event(const Event& event) {
  TOWPATH_TRY(const CudaEvent* ours, cuda_event(event));
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuIpcHandle handle;
  TOWPATH_TRY(cuda().check(cuda().call().ipc_export_event(&handle, ours->get()),
                           "cannot export an event (it is made with interprocess)"));
  return from_cuda(handle);
}

Result<std::shared_ptr<Event>> CudaDevice::import_event(const IpcHandle& handle) {
  const CurrentScope scope(context_);
  TOWPATH_TRY(scope.status());
  CuEvent event = nullptr;
  TOWPATH_TRY(cuda().check(cuda().call().ipc_import_event(&event, to_cuda(handle)),
                           "cannot open another process's event"));
  return std::make_shared<CudaEvent>(std::static_pointer_cast<CudaDevice>(shared_from_this()),
                                     event, false);
}

}  // namespace towpath::device::cuda
