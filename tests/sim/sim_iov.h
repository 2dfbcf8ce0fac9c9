/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the bytes of an operation on a simulated medium. For sim_media.c and sim_disk_op.c. Any
 * thread. */
#ifndef WEFT_TESTS_SIM_IOV_H
#define WEFT_TESTS_SIM_IOV_H

#include "media/media.h"

#include <string.h>

/* Copies `bytes` to the iov of a read, or from the iov of a write, starting at byte `at` of the
 * transfer. */
static inline void sim_iov_copy(const struct media_io *io, uint64_t at, uint8_t *bytes,
				size_t len_bytes)
{
	unsigned i = 0;

	while (at >= io->iov[i].iov_len)
		at -= io->iov[i++].iov_len;
	while (len_bytes > 0) {
		size_t room = io->iov[i].iov_len - at;
		size_t part = room < len_bytes ? room : len_bytes;
		uint8_t *there = (uint8_t *)io->iov[i].iov_base + at;

		if (io->kind == MEDIA_READ)
			memcpy(there, bytes, part);
		else
			memcpy(bytes, there, part);
		bytes += part;
		len_bytes -= part;
		at = 0;
		i++;
	}
}

#endif
