import {
  type Answers,
  count,
  type Field,
  flag,
  id,
  isoTime,
  link,
  list,
  media,
  mixed,
  number,
  object,
  picture,
  type Shape,
  seconds,
  size,
  text,
  word,
} from './fields.ts'

const login = text('Name of the account', 'example')
const displayName = text('Name that is shown', 'Example')
const color = word('Main colour', '1F69FF')
const person: Shape = {
  id: id('the account'),
  login,
  displayName,
  profileImageURL: picture('Picture of the account'),
  primaryColorHex: color,
}
const game = object('What was streamed', {
  id: id('the game'),
  slug: word('Name in links', 'just-chatting'),
  name: word('Name of the game', 'Just Chatting'),
  displayName: word('Name that is shown', 'Just Chatting'),
  boxArtURL: picture('Picture of the game'),
})

const video: Shape = {
  id: id('the video'),
  title: text('Title of the video', 'An evening with games'),
  lengthSeconds: seconds('Length', 13_895),
  publishedAt: isoTime('When the video was published'),
  viewCount: count('views', 702),
  previewThumbnailURL: picture('Preview picture'),
  animatedPreviewURL: picture('Preview that moves'),
  game,
  owner: object('Whose video it is', person),
  contentTags: list('Tags', { id: id('the tag'), localizedName: text('The tag', 'English') }),
  self: object('What the viewer may do', {
    isRestricted: flag('Whether the video is for subscribers only', false),
  }),
}
const clipInList: Shape = {
  id: id('the clip'),
  slug: id('the clip in its link', 'ExampleClip-0000000000000001'),
  clipTitle: text('Title of the clip', 'A good moment'),
  clipViewCount: count('views', 1_799),
  curator: object('Who made the clip', person),
  clipGame: game,
  broadcaster: object('Whose stream it is', person),
  thumbnailURL: picture('Preview picture'),
  createdAt: isoTime('When the clip was made'),
  durationSeconds: seconds('Length', 30),
  isFeatured: flag('Whether the streamer shows it first', true),
}
const stream = object('The stream, if it is live', {
  id: id('the stream'),
  type: word('Kind of stream', 'live'),
  createdAt: isoTime('When the stream began'),
  viewersCount: count('viewers', 2_740),
  game,
  tags: list('Tags', { id: id('the tag'), name: text('The tag', 'English') }),
})
const similarStreamers = list('Similar accounts', person)

const profile: Shape = {
  id: id('the account'),
  handle: login,
  displayName,
  description: text('What the account writes about itself', 'I play games'),
  followers: count('followers', 3_830_874),
  isLive: flag('Whether the account is live', true),
  currentViewersCount: count('viewers', 6_293),
  isPartner: flag('Whether the account is a partner of the platform', true),
  profileImageURL: picture('Picture of the account'),
  bannerImageURL: picture('Wide picture of the account'),
  stream,
}
const accounts: Shape = {
  x: link('Account on X', 'x/example'),
  instagram: link('Account on Instagram', 'instagram/example'),
  youtube: link('Account on YouTube', 'youtube/example'),
  tiktok: link('Account on TikTok', 'tiktok/example'),
}

const clip: Shape = {
  id: id('the clip'),
  slug: id('the clip in its link', 'ExampleClip-0000000000000001'),
  url: link('Link to the clip', 'clip/ExampleClip-0000000000000001'),
  embedURL: link('Link for embedding', 'embed?clip=ExampleClip-0000000000000001'),
  title: text('Title of the clip', 'A good moment'),
  viewCount: count('views', 52_441),
  language: word('Language, two letters', 'EN'),
  durationSeconds: seconds('Length', 27),
  createdAt: isoTime('When the clip was made'),
  isFeatured: flag('Whether the streamer shows it first', true),
  thumbnailURL: picture('Preview picture'),
  game,
  curator: object('Who made the clip', person),
  broadcaster: object('Whose stream it is', {
    ...person,
    isPartner: flag('Whether the account is a partner of the platform', true),
    followers: object('Followers', { totalCount: count('followers', 3_450_065) }),
  }),
}
const node = (thing: Field) => ({ node: thing })

export const twitch: Answers = {
  clip: {
    items: list('One entry', {
      data: object('The answer of the platform', {
        clip: object('The clip', {
          ...clip,
          videoURL: media('Link to the video'),
          videoQualities: list('The video in several sizes', { sourceURL: media('Link to the video') }),
          assets: list('Versions of the clip', {
            id: id('the version'),
            type: word('Kind of version', 'SOURCE'),
            aspectRatio: number('Width divided by height', 1.778),
            videoQualities: list('The video in several sizes', {
              quality: word('Height', '1080', 'pixels'),
              frameRate: number('Frames per second', 60),
              sourceURL: media('Link to the video'),
            }),
          }),
          broadcast: object('The stream', { id: id('the stream') }),
        }),
        user: object('Whose stream it is', {
          id: id('the account'),
          clips: object('More clips', { edges: list('Clips', node(object('The clip', clip))) }),
        }),
      }),
    }),
  },
  profile: {
    ...profile,
    ...accounts,
    recentBroadcasts: list('Latest streams', video),
    allVideos: list('Videos', video),
    featuredClips: list('Clips that are shown first', clipInList),
    similarStreamers,
  },
  schedule: {
    id: id('the account'),
    channel: object('The channel', {
      id: id('the channel'),
      schedule: object('The plan', {
        id: id('the plan', 'schedule-1000001'),
        nextSegment: object('The next stream', {
          id: id('the planned stream', 'eyJzZWdtZW50SUQiOiJleGFtcGxlIn0='),
          startAt: isoTime('When it begins'),
        }),
        segments: list('Planned streams', {
          id: id('the planned stream', 'eyJzZWdtZW50SUQiOiJleGFtcGxlIn0='),
          title: text('Title of the stream', 'An evening with games'),
          startAt: isoTime('When it begins'),
          endAt: isoTime('When it ends'),
          isCancelled: flag('Whether it is canceled', false),
        }),
      }),
    }),
    lastBroadcast: object('The last stream', {
      id: id('the stream'),
      startedAt: isoTime('When the stream began'),
      title: text('Title of the stream', 'An evening with games'),
    }),
    broadcastSettings: object('Settings of the next stream', {
      id: id('the settings'),
      title: text('Title of the stream', 'An evening with games'),
    }),
    stream: object('The stream, if it is live', {
      id: id('the stream'),
      createdAt: isoTime('When the stream began'),
      viewersCount: count('viewers', 2_994),
      previewImageURL: picture('Preview picture'),
      ...size,
      game,
    }),
    videos: object('Latest videos', {
      edges: list(
        'Videos',
        node(
          object('The video', {
            id: id('the video'),
            title: text('Title of the video', 'An evening with games'),
            createdAt: isoTime('When the video was made'),
            lengthSeconds: seconds('Length', 41_352),
            viewCount: count('views', 196),
            previewThumbnailURL: picture('Preview picture'),
            game,
          }),
        ),
      ),
    }),
    primaryColorHex: mixed('Main colour, or null', '1F69FF'),
  },
  videos: {
    ...profile,
    ...accounts,
    allVideos: list('Videos', video),
    featuredClips: list('Clips that are shown first', clipInList),
    similarStreamers,
  },
}
