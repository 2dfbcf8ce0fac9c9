/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of all kinds of media that a spec can name. The list is in this folder because media/
 * may not include volume/. A new kind needs one line here.
 */
#include "media/driver.h"
#include "volume/fault.h"

const struct media_driver *const media_drivers[] = {
	&media_file_driver, &media_mem_driver, &media_null_driver, &fault_driver, NULL,
};
