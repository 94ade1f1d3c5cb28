#include "tools/replay/torn_files.h"

namespace towpath::tools::replay {
namespace {

class TornFile final : public sys::File {
 public:
  TornFile(std::unique_ptr<sys::File> file, std::shared_ptr<const std::byte*> torn)
      : file_(std::move(file)), torn_(std::move(torn)) {}

  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override {
    return file_->read_at(into, offset);
  }
  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override {
    if (*torn_ == nullptr || from.data() != *torn_) return file_->write_at(from, offset);
    *torn_ = nullptr;
    TOWPATH_TRY(sys::write_exactly(*file_, from.first(from.size() / 2), offset));
    return from.size();
  }
  Status sync() override { return file_->sync(); }
  void start_sync() override { file_->start_sync(); }
  Status lock() override { return file_->lock(); }
  Result<std::uint64_t> size() override { return file_->size(); }
  Status resize(std::uint64_t size_bytes) override { return file_->resize(size_bytes); }
  Status preallocate(std::uint64_t size_bytes) override { return file_->preallocate(size_bytes); }
  int fd() const noexcept override { return file_->fd(); }
  const std::string& path() const noexcept override { return file_->path(); }
  bool direct() const noexcept override { return file_->direct(); }
  const std::string& direct_refusal() const noexcept override { return file_->direct_refusal(); }
  std::uint64_t alignment() const noexcept override { return file_->alignment(); }

 private:
  const std::unique_ptr<sys::File> file_;
  const std::shared_ptr<const std::byte*> torn_;
};

}  // namespace

Result<std::unique_ptr<sys::File>> TornFiles::open(const std::string& path,
                                                   const sys::OpenFile& options) {
  TOWPATH_TRY(auto file, files_.open(path, options));
  return std::unique_ptr<sys::File>(std::make_unique<TornFile>(std::move(file), torn_));
}

}  // namespace towpath::tools::replay
