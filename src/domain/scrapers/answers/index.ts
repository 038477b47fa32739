import { amazon } from './amazon.ts'
import { bluesky } from './bluesky.ts'
import { facebook } from './facebook.ts'
import type { Answers } from './fields.ts'
import { google } from './google.ts'
import { instagram } from './instagram.ts'
import { kick } from './kick.ts'
import { linkedin } from './linkedin.ts'
import { komi, linkbio, linkme, linktree, pillar } from './pages-of-links.ts'
import { pinterest } from './pinterest.ts'
import { reddit } from './reddit.ts'
import { snapchat } from './snapchat.ts'
import { spotify } from './spotify.ts'
import { telegram } from './telegram.ts'
import { threads } from './threads.ts'
import { tiktok } from './tiktok.ts'
import { truthsocial } from './truthsocial.ts'
import { twitch } from './twitch.ts'
import { twitter } from './twitter.ts'
import { youtube } from './youtube.ts'

/** The shapes of all answers, by platform and operation. */
export const answers: Readonly<Record<string, Answers>> = {
  amazon,
  bluesky,
  facebook,
  google,
  instagram,
  kick,
  komi,
  linkbio,
  linkedin,
  linkme,
  linktree,
  pillar,
  pinterest,
  reddit,
  snapchat,
  spotify,
  telegram,
  threads,
  tiktok,
  truthsocial,
  twitch,
  twitter,
  youtube,
}
