/* For wheels: std::condition_variable::wait() got a second version in GCC 12's library, for its noexcept alone. It is the
 * only name that would keep a wheel from systems with GCC 11's (RHEL 9): callers find this one, which calls the first. */
void towpath_first_wait(void* condition, void* lock);
__asm__(".symver towpath_first_wait,_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

__attribute__((visibility("hidden"))) void towpath_wait(void* condition, void* lock) __asm__(
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");

void towpath_wait(void* condition, void* lock) { towpath_first_wait(condition, lock); }
