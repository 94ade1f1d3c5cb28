#include <towpath/backend/sealed_record.h>
#include <towpath/core/format.h>

namespace towpath::backend {

Status no_such_record(const RecordForm& form, Status why) {
  const Code code = why.code() == Code::unsupported ? Code::unsupported : Code::corrupt;
  std::string hint(why.hint());
  return error(code, cat("these bytes are no ", form.schema.name), std::move(hint))
      .because(std::move(why));
}

Status too_old(const RecordForm& form, std::uint16_t version) {
  return error(Code::unsupported,
               cat(form.schema.name, " version ", version,
                   ", of an older release; this side needs ", form.oldest),
               "upgrade the other side");
}

}  // namespace towpath::backend
