import {
  type Answers,
  count,
  entries,
  flag,
  id,
  isoTime,
  link,
  links,
  list,
  milliseconds,
  mixed,
  number,
  object,
  picture,
  pictures,
  position,
  type Shape,
  seconds,
  text,
  texts,
  word,
} from './fields.ts'

const videoId = id('the video', 'EXAMPLEvide')
const videoUrl = link('Link to the video', 'watch?v=EXAMPLEvide')
const title = text('Title of the video', 'How proxies work')
const description = text('Text below the video', 'A short introduction')
const preview = picture('Preview picture')
const viewsText = word('Number of views in words', '110,447 views')
const views = count('views', 110_447)
const ago = word('When it was published, in words', '9 days ago')
const published = isoTime('When it was published, estimated from the words')
const lengthText = word('Length', '37:25', 'minutes and seconds')
const length = seconds('Length', 2_245)
const publishDate = isoTime('When it was published')
const channelId = id('the channel', 'UCexampleexampleexample1')
const channelTitle = text('Name of the channel', 'Example Channel')
const channelUrl = link('Link to the channel', '@example')
const channelHandle = text('Handle of the channel', 'example')

const channelOf = object('The channel', {
  id: channelId,
  title: channelTitle,
  url: channelUrl,
  handle: channelHandle,
  thumbnail: picture('Picture of the channel'),
})
const inList: Shape = {
  type: word('Kind of the entry', 'video'),
  id: videoId,
  url: videoUrl,
  title,
  thumbnail: preview,
  channel: channelOf,
  viewCountText: viewsText,
  viewCountInt: views,
  publishedTimeText: ago,
  publishedTime: published,
  lengthText,
  lengthSeconds: length,
}
const video: Shape = { ...inList, description }
const detailed: Shape = {
  id: videoId,
  url: videoUrl,
  title,
  description,
  thumbnail: preview,
  publishDate,
  viewCountText: viewsText,
  viewCountInt: views,
  likeCountInt: count('likes', 4_043),
  commentCountText: word('Number of comments in words', '358'),
  commentCountInt: count('comments', 358),
  durationMs: milliseconds('Length', 37_000),
  durationFormatted: word('Length', '00:00:37', 'hours, minutes and seconds'),
}
const comment: Shape = {
  id: id('the comment', 'UgwExampleExampleExample'),
  content: text('Text of the comment', 'A good introduction'),
  publishedTimeText: ago,
  publishedTime: published,
  replyLevel: number('0 for comments, 1 for answers', 0),
  author: object('Who wrote the comment', {
    name: text('Handle of the author', '@example'),
    channelId,
    isVerified: flag('Whether the author is verified', false),
    isCreator: flag('Whether the author made the video', false),
    avatarUrl: picture('Picture of the author'),
    channelUrl,
  }),
  engagement: object('Figures', { likes: count('likes', 110), replies: count('answers', 5) }),
}
const channelFound: Shape = {
  type: word('Kind of the entry', 'channel'),
  id: channelId,
  title: channelTitle,
  url: channelUrl,
  handle: channelHandle,
  thumbnail: picture('Picture of the channel'),
}
const playlistFound: Shape = {
  type: word('Kind of the entry', 'playlist'),
  id: id('the playlist', 'PLexampleexampleexample1'),
  title: text('Title of the playlist', 'Proxies for beginners'),
  thumbnail: preview,
  playlistUrl: link('Link to the playlist', 'playlist?list=PLexampleexampleexample1'),
  videoId,
  videoUrl,
}
/** Lists that the platform answers beside the main one. */
const otherLists: Shape = {
  channels: list('Channels', channelFound),
  playlists: list('Playlists', playlistFound),
  shelves: list('Groups of results', {
    type: word('Kind of the entry', 'shelf'),
    title: text('Title of the group', 'Shorts'),
    items: list('Results of the group', { id: videoId, url: videoUrl, title, viewCountInt: views }),
  }),
  lives: list('Live streams', {
    type: word('Kind of the entry', 'live'),
    id: videoId,
    url: videoUrl,
    title,
    thumbnail: preview,
    channel: channelOf,
    viewCountText: viewsText,
  }),
}
const token = position('4qmFsgKrZXhhbXBsZVBhZ2Uy')

export const youtube: Answers = {
  channel: {
    channelId,
    channel: channelUrl,
    name: channelTitle,
    description: text('What the channel is about', 'Videos about proxies'),
    subscriberCount: count('subscribers', 2_750_000),
    subscriberCountText: word('Number of subscribers in words', '2.75M subscribers'),
    videoCountText: word('Number of videos in words', '9,221 videos'),
    viewCountText: word('Number of views in words', '2,170,355,382 views'),
    joinedDateText: word('When the channel was created, in words', 'Joined Jan 31, 2020'),
    country: word('Country', 'United States'),
    tags: text('Words for the channel, with commas between', 'proxies, networks'),
    email: mixed('Mail address, or null', null),
    links: links('Links of the channel', 'shop'),
    avatar: object('Picture of the channel', {
      image: object('The picture', { sources: pictures('The picture in several sizes') }),
    }),
  },
  'channel-shorts': {
    shorts: list('Shorts', {
      type: word('Kind of the entry', 'short'),
      ...detailed,
      genre: word('What it is about', 'Education'),
    }),
    continuationToken: token,
    videos: list('Videos; empty', inList),
    ...otherLists,
  },
  'channel-videos': { videos: list('Videos', video), continuationToken: token },
  'comment-replies': {
    comments: list('Answers', comment),
    continuationToken: position('Eg0SC0VYQU1QTEV2aWRlGAYyAjI='),
  },
  comments: {
    comments: list('Comments', {
      ...comment,
      repliesContinuationToken: word('`cursor` of comment-replies', 'Eg0SC0VYQU1QTEV2aWRlGAYyATE='),
    }),
    continuationToken: token,
  },
  'community-post': {
    id: id('the post', 'UgkxExampleExampleExample'),
    channel: channelOf,
    content: text('Text of the post', 'A new video is out'),
    images: links('Pictures of the post', 'picture.jpg'),
    likeCount: count('likes', 759),
    publishedTimeText: ago,
    publishedTime: published,
    video: mixed('Video of the post, or null', null),
  },
  playlist: {
    title: text('Title of the playlist', 'Proxies for beginners'),
    owner: object('Whose playlist it is', {
      id: channelId,
      name: channelTitle,
      url: channelUrl,
      handle: channelHandle,
    }),
    totalVideos: count('videos', 98),
    videos: list('Videos', {
      id: videoId,
      url: videoUrl,
      title,
      thumbnail: preview,
      lengthText,
      lengthSeconds: length,
      channel: channelOf,
    }),
  },
  search: {
    videos: list('Videos', inList),
    shorts: list('Shorts', { ...inList, type: word('Kind of the entry', 'short') }),
    ...otherLists,
    continuationToken: position('EooDEgZleGFtcGxlUGFnZTI='),
  },
  'search-hashtag': { videos: list('Videos', video), continuationToken: token },
  transcript: {
    videoId,
    type: word('Kind of the entry', 'video'),
    url: videoUrl,
    transcript: list('Lines', {
      text: text('What is said', 'welcome to this video'),
      startMs: word('When the line begins', '160', 'milliseconds'),
      endMs: word('When the line ends', '1920', 'milliseconds'),
      startTimeText: word('When the line begins', '0:00', 'minutes and seconds'),
    }),
    transcript_only_text: text('All lines as one text', 'welcome to this video'),
    language: word('Language of the captions', 'English'),
  },
  'trending-shorts': {
    shorts: list('Shorts', {
      ...detailed,
      channel: channelOf,
      keywords: texts('Words for the short', ['proxies']),
    }),
  },
  video: {
    ...detailed,
    type: word('Kind of the entry', 'video'),
    description: mixed('Text below the video, or null', 'A short introduction'),
    channel: channelOf,
    chapters: entries('Chapters'),
    keywords: texts('Words for the video', ['proxies']),
    genre: word('What it is about', 'Education'),
    captionTracks: list('Captions', {
      baseUrl: link('Link to the captions', 'captions?v=EXAMPLEvide'),
      languageCode: word('Language, two letters', 'en'),
      kind: word('asr: written by a machine', 'asr'),
      isTranslatable: flag('Whether the platform translates them', true),
    }),
    watchNextVideos: list('Similar videos', {
      id: videoId,
      title,
      thumbnail: preview,
      channel: channelOf,
      publishedTimeText: ago,
      viewCountInt: views,
      lengthInSeconds: length,
      videoUrl,
    }),
  },
}
