import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import {
  sampleThingConfigOf,
  sampleThingSettings,
} from '../../../../../../tools/dev/templates/src/features/sample-area/settings.ts'

const schema = z.object(sampleThingSettings)

test('the settings have defaults, and a wrong value is refused with the accepted ones', () => {
  assert.deepEqual(sampleThingConfigOf(schema.parse({})), { maxLength: 64 })
  const { error } = schema.safeParse({ FAREBOX_SAMPLE_THING_LENGTH: '0' })
  assert.equal(error?.issues[0]?.message, 'a whole number from 1 to 1000')
})
