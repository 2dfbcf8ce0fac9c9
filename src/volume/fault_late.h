/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule "late" of fault media: the medium opens some time after its inner medium, or fails to.
 * Control thread, with a reactor.
 */
#ifndef WEFT_VOLUME_FAULT_LATE_H
#define WEFT_VOLUME_FAULT_LATE_H

#include "media/driver.h"

/* For open of a driver: ends the opening after delay_ms with the medium, which is taken, or with
 * `error` (-errno; 0: none). -EINPROGRESS, or another -errno with ret_error filled. */
int fault_late_open(struct media_opening *opening, struct media *taken_media, uint64_t delay_ms,
		    int error, struct media_error *ret_error);
/* For cancel of a driver. */
void fault_late_cancel(struct media_opening *opening);

#endif
