import { choice, handle, link, type ScraperRow, scraper, text } from '../scraper.ts'

const spotifyHosts = ['open.spotify.com']
const twitchHosts = ['twitch.tv', 'clips.twitch.tv']
const kickHosts = ['kick.com']

/** Scrapers of spotify, twitch, kick. */
export const media: readonly ScraperRow[] = [
  scraper('spotify', 'artist', {
    price: '0.0030',
    summary: 'A single artist',
    inputs: [
      text('id', 'Id of the artist', '0cGUm45nv7Z6M6qdXYQGTX'),
      link('artist', spotifyHosts, 'https://open.spotify.com/artist/0cGUm45nv7Z6M6qdXYQGTX'),
    ],
    oneOf: [['id', 'url']],
    answer: 'Profile, listeners, releases and similar artists',
    fields:
      'id uri profile:object stats:object discography:object relatedContent:object goods:object popularity:number headerImage:object onPlatformReputationTrait:object preRelease:any relatedMusicVideos:array',
    path: '/v1/spotify/artist',
  }),
  scraper('spotify', 'track', {
    price: '0.0030',
    summary: 'A single track',
    inputs: [
      text('id', 'Id of the track', '1ITJflybJsfarsUtiBvkfK'),
      link('track', spotifyHosts, 'https://open.spotify.com/track/1ITJflybJsfarsUtiBvkfK'),
    ],
    oneOf: [['id', 'url']],
    answer: 'Title, artists, album, length and plays',
    fields:
      'id uri name duration:object playcount:number trackNumber:number albumOfTrack:object firstArtist:object[] otherArtists:object[] contentRating:object popularity:number associationsV3:object',
    items: ['firstArtist', 'id uri discography:object profile:object relatedContent:object visuals:object'],
    path: '/v1/spotify/track',
  }),
  scraper('spotify', 'album', {
    price: '0.0030',
    summary: 'A single album',
    inputs: [
      text('id', 'Id of the album', '0pgrg7phBbnwGJ2HBEl9EG'),
      link('album', spotifyHosts, 'https://open.spotify.com/album/0pgrg7phBbnwGJ2HBEl9EG'),
    ],
    oneOf: [['id', 'url']],
    answer: 'Title, artists, date, label and tracks',
    fields:
      'id uri name type date:object label artists:object[] tracksV2:object[] discs:object[] coverArt:object copyright:object[] popularity:number',
    items: ['artists', 'id uri profile:object sharingInfo:object visuals:object'],
    path: '/v1/spotify/album',
  }),
  scraper('twitch', 'profile', {
    price: '0.0030',
    summary: 'A public profile',
    inputs: [handle('twitch', { required: true })],
    answer: 'Who it is, followers, whether it is live, videos and clips',
    fields:
      'id handle displayName description followers:number isLive:boolean currentViewersCount:number isPartner:boolean stream:object recentBroadcasts:object[] allVideos:object[] similarStreamers:array',
    items: [
      'recentBroadcasts',
      'id title lengthSeconds:number previewThumbnailURL publishedAt viewCount:number animatedPreviewURL contentTags:array self:object',
    ],
    path: '/v1/twitch/profile',
    isCacheable: true,
  }),
  scraper('twitch', 'videos', {
    price: '0.0030',
    summary: 'Videos of a profile',
    inputs: [
      handle('twitch', { required: true }),
      choice('filter_by', 'Which kind of videos', ['HIGHLIGHT', 'ARCHIVE', 'UPLOAD'], 'ARCHIVE'),
      choice('sort_by', 'Which videos come first', ['TIME', 'VIEWS'], 'TIME'),
    ],
    answer: 'At most 100 videos with game, length and views',
    fields:
      'id handle displayName allVideos:object[] featuredClips:object[] followers:number isLive:boolean similarStreamers:object[] description currentViewersCount:number stream:object profileImageURL',
    items: [
      'allVideos',
      'id title lengthSeconds:number animatedPreviewURL game:object owner:object previewThumbnailURL publishedAt self:object',
    ],
    path: '/v1/twitch/user/videos',
  }),
  scraper('twitch', 'schedule', {
    price: '0.0030',
    summary: 'When a profile plans to stream',
    inputs: [handle('twitch', { required: true })],
    answer: 'Streams to come, and the last one',
    fields:
      'id channel:object lastBroadcast:object broadcastSettings:object stream:object videos:object primaryColorHex:any',
    path: '/v1/twitch/user/schedule',
  }),
  scraper('twitch', 'clip', {
    price: '0.0030',
    summary: 'A single clip',
    inputs: [
      link(
        'clip',
        twitchHosts,
        'https://www.twitch.tv/staryuuki/clip/CloudySavageMarjoramRuleFive--ErzsYbE7UWvgCMQ',
        { required: true },
      ),
    ],
    answer: 'A list with title, views, broadcaster and where the clip plays',
    fields: 'items:object[]',
    items: ['items', 'data:object'],
    isBareList: true,
    path: '/v1/twitch/clip',
    isCacheable: true,
  }),
  scraper('kick', 'clip', {
    price: '0.0030',
    summary: 'A single clip',
    inputs: [
      link('clip', kickHosts, 'https://kick.com/xqc/clips/clip_01JGJHB6CEVFCQRYTVPM8DW892', {
        required: true,
      }),
    ],
    answer: 'Clip, category, author and channel',
    fields: 'clip:object',
    path: '/v1/kick/clip',
  }),
]
