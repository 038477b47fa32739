import { InvalidArgumentError } from 'commander'
import { type Moment, momentForms, parseMoment } from './input-forms.ts'

export { bookForms, type Moment, momentForms } from './input-forms.ts'

export const momentText = (text: string): Moment => {
  const moment = parseMoment(text)
  if (moment !== null) return moment
  throw new InvalidArgumentError(`It must be ${momentForms}.`)
}
