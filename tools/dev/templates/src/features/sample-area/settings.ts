import type { z } from 'zod'
import { whole } from '../../../../../../src/platform/cli/setting-forms.ts'

/** The settings of sample-area, part of the one schema in `src/app/config.ts`. */
export const sampleThingSettings = {
  FAREBOX_SAMPLE_THING_LENGTH: whole(1, 1_000)
    .prefault('64')
    .describe('The maximum length of a sample thing, characters.'),
} as const

export type SampleThingConfig = ReturnType<typeof sampleThingConfigOf>

export const sampleThingConfigOf = (values: z.output<z.ZodObject<typeof sampleThingSettings>>) => ({
  maxLength: values.FAREBOX_SAMPLE_THING_LENGTH,
})
