#include <towpath/device/cuda/cuda_stream.h>

namespace towpath::device::cuda {

Result<std::shared_ptr<Pool>> CudaPool::create(std::shared_ptr<CudaDevice> device,
                                               const PoolOptions& options) {
  if (!device->info().has_pools)
    return error(Code::unsupported, cat("GPU ", device->info().ordinal, " has no memory pools"),
                 "use Device::allocate");
  const CudaLibrary& cuda = device->cuda();
  const PoolProperties properties{
      .location = {.type = kLocationDevice, .id = device->context().device()}};
  const CurrentScope scope(device->context());
  TOWPATH_TRY(scope.status());
  CuPool raw = nullptr;
  TOWPATH_TRY(cuda.check(cuda.call().pool_create(&raw, &properties), "cannot make a pool on GPU ",
                         device->info().ordinal));
  auto pool = std::make_shared<CudaPool>(device, raw);
  std::uint64_t keep = options.keep_bytes;
  TOWPATH_TRY(cuda.check(cuda.call().pool_set(raw, PoolAttribute::release_threshold, &keep),
                         "cannot let a pool keep ", keep, " bytes"));
  return std::shared_ptr<Pool>(std::move(pool));
}

CudaPool::~CudaPool() {
  const CurrentScope scope(device_->context());
  (void)device_->cuda().call().pool_destroy(pool_);
}

Result<std::uint64_t> CudaPool::allocate(std::uint64_t size_bytes, Stream& stream) {
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes", "ask for at least 1 byte");
  TOWPATH_TRY(CudaStream * theirs, cuda_stream(stream));
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  CuAddress address = 0;
  TOWPATH_TRY(device_->cuda().check(
      device_->cuda().call().pool_allocate(&address, size_bytes, pool_, theirs->get()),
      "cannot allocate ", size_bytes, " bytes of a pool on GPU ", device_->info().ordinal));
  return std::uint64_t{address};
}

Status CudaPool::free(std::uint64_t address, Stream& stream) {
  TOWPATH_TRY(CudaStream * theirs, cuda_stream(stream));
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(device_->cuda().call().pool_free(address, theirs->get()),
                               "cannot free ", hex(address), " of a pool");
}

Result<PoolFigures> CudaPool::figures() const {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  PoolFigures figures;
  const auto& cuda = device_->cuda();
  TOWPATH_TRY(cuda.check(
      cuda.call().pool_get(pool_, PoolAttribute::reserved_current, &figures.reserved_bytes),
      "cannot ask what a pool holds"));
  TOWPATH_TRY(
      cuda.check(cuda.call().pool_get(pool_, PoolAttribute::used_current, &figures.used_bytes),
                 "cannot ask what a pool gave out"));
  return figures;
}

Status CudaPool::trim(std::uint64_t keep_bytes) {
  const CurrentScope scope(device_->context());
  TOWPATH_TRY(scope.status());
  return device_->cuda().check(device_->cuda().call().pool_trim(pool_, keep_bytes),
                               "cannot trim a pool");
}

}  // namespace towpath::device::cuda
