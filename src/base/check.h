/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programmer errors: CHECK is on in release builds too, CHECK_COSTLY is not.
 *
 * A storage target that goes on with a wrong slot writes someone else's data, so a broken
 * invariant ends the process with a message. Bad input is never a CHECK.
 */
#ifndef WEFT_BASE_CHECK_H
#define WEFT_BASE_CHECK_H

#include <stddef.h>

_Noreturn void check_failed(const char *file, int line, const char *what);
/* Called before the message, in any thread and any state: it may neither allocate nor lock. */
void check_set_last_words(void (*fn)(void));

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			check_failed(__FILE__, __LINE__, #cond);                                   \
	} while (0)

/*
 * For what each command would pay for: on in builds with sanitizers, without optimization, and with
 * -DWEFT_CHECK_COSTLY=1. Elsewhere compiled and left out.
 */
#ifndef WEFT_CHECK_COSTLY
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define WEFT_CHECK_COSTLY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_CHECK_COSTLY 1
#endif
#endif
#endif
#ifndef WEFT_CHECK_COSTLY
#define WEFT_CHECK_COSTLY 0
#endif

#define CHECK_COSTLY(cond) CHECK(!WEFT_CHECK_COSTLY || (cond))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
