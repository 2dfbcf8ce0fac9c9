/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tables: from the outcome of a command to the errno that weft.h promises, and from the errno
 * to a line for people. Pure functions; any thread. Statuses of NVMe Base 2.1, section 4.2.3, and
 * NVM Command Set 1.1, section 3.1.
 */
#include "lib/lib.h"

#include <errno.h>
#include <string.h>

static const struct {
	uint16_t status; /* SCT in bits 10:8, SC in bits 7:0 */
	int error;
} result_errors[] = {
	{0x285, EILSEQ},     /* Compare Failure */
	{0x281, ENODATA},    /* Unrecovered Read Error */
	{0x287, ENODATA},    /* Deallocated or Unwritten Logical Block */
	{0x081, ENOSPC},     /* Capacity Exceeded */
	{0x020, EROFS},      /* Namespace is Write Protected */
	{0x182, EROFS},      /* Attempted Write to Read Only Range */
	{0x083, EBADE},      /* Reservation Conflict */
	{0x00b, ENXIO},      /* Invalid Namespace or Format */
	{0x001, EOPNOTSUPP}, /* Invalid Command Opcode */
};

int lib_result(enum mpath_result result, nvme_status status)
{
	switch (result) {
	case MPATH_OK:
		return 0;
	case MPATH_NO_PATH:
		return -ENOTCONN;
	case MPATH_UNKNOWN:
		return -EREMOTEIO;
	case MPATH_GONE:
		return -ENXIO;
	case MPATH_STALE:
		return -ESTALE;
	case MPATH_LOST:
		return -EIO;
	case MPATH_STATUS:
		break;
	}
	for (size_t i = 0; i < ARRAY_LEN(result_errors); i++) {
		if (result_errors[i].status == (status.value & 0x7ff))
			return -result_errors[i].error;
	}
	return -EIO;
}

/* Texts for errnos whose meaning in libweft is more specific than in errno(3). */
static const struct {
	int error;
	const char *text;
} result_texts[] = {
	{EILSEQ, "compare found a difference"},
	{ENODATA, "block cannot be read"},
	{ENOSPC, "no space left on the namespace"},
	{EROFS, "namespace is write protected"},
	{EBADE, "another host holds a reservation"},
	{ENXIO, "namespace was removed from the subsystem"},
	{ESTALE,
	 "another namespace has this NSID, or its block size changed; open the namespace again"},
	{ENOTCONN, "no usable path to the subsystem"},
	{EREMOTEIO, "path lost, outcome unknown"},
	{EOPNOTSUPP, "controller does not support the command"},
	{EIO, "controller reported an error, or the target lost acknowledged writes"},
	{EDEADLK, "call would wait for its own thread; not allowed in a callback"},
	{E2BIG, "structure of a newer libweft; call its _init function"},
};

#define ERRNO_MAX 4095 /* largest errno of Linux */

const char *weft_strerror(int result)
{
	const char *text;

	if (result == 0)
		return "success";
	if (result > 0 || result < -ERRNO_MAX)
		return "unknown error";
	for (size_t i = 0; i < ARRAY_LEN(result_texts); i++) {
		if (result_texts[i].error == -result)
			return result_texts[i].text;
	}
	text = strerrordesc_np(-result);
	return text != NULL ? text : "unknown error";
}
