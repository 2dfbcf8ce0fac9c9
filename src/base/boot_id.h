/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's boot ID, which changes with every start of the machine. Any thread; reads a file. */
#ifndef WEFT_BASE_BOOT_ID_H
#define WEFT_BASE_BOOT_ID_H

#include "base/uuid.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* Sets *ret_id to nil when the ID cannot be read. */
void boot_id_read(struct uuid *ret_id);

#endif
