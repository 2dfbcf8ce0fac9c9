/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kind of medium that a spec can name. The list is here and not in media/, because media/ may
 * not include volume/. A new kind is one line.
 */
#include "media/driver.h"
#include "volume/fault.h"

const struct media_driver *const media_drivers[] = {
	&media_file_driver, &media_mem_driver, &media_null_driver, &fault_driver, NULL,
};
